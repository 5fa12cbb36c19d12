package job

import (
	"bytes"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Remove deletes a job and what lies beside it. The guard closes the race with whoever
// claims it, brings it back or changes it meanwhile. Beside what is done lies nothing
// of it: by mischance it may be another job's.
func (t Txns) Remove(l Snapshot) etcdkv.Txn {
	id := l.Record.ID
	key := t.Key(l.Where, id)
	txn := etcdkv.Txn{
		Origin: "repair",
		If:     t.guard(l), //mutant:delete-guard
		Then:   []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(t.Keys.Refused(id))},
		Else:   []clientv3.Op{clientv3.OpGet(key)},
	}
	if l.Where != InDone {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Payload(id)), clientv3.OpDelete(t.Keys.Progress(id)))
	}
	t.emptyInbox(&txn, l)
	return txn
}

// Beside are what lies beside a record, read at its revision.
type Beside struct {
	Payload     []byte
	Progress    []byte
	ProgressRev int64 // 0: there is none
}

// Edit writes the record that describes the job anew, as any intervention, and a
// payload that goes, or went, beside it. The guard is all that the payload needs: it is
// never written without its record.
func (t Txns) Edit(l Snapshot, n Next, e *Edition) (etcdkv.Txn, error) {
	txn, err := t.Intervene(l, n, clientv3.NoLease)
	if err != nil || !e.Repacked {
		return txn, err
	}
	switch key := t.Keys.Payload(l.Record.ID); {
	case n.Record.Beside > 0:
		txn.Then = append(txn.Then, clientv3.OpPut(key, string(e.Payload)))
	case l.Record.Beside > 0:
		txn.Then = append(txn.Then, clientv3.OpDelete(key))
	}
	return txn, nil
}

// Salvaged makes a dead letter of what cannot be read. A record that is sound but for
// its head, its name, its owner or its counts, as after an edit by hand, keeps all its
// other fields; of any other one the payload is all that was there.
func Salvaged(id string, value []byte, why error, e Event) *Record {
	r, err := ParseRecord(value)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		r = &Record{}
		r.setPayload(value)
	}
	r.Nonce, r.ID = e.Nonce, id
	if r.Born == "" {
		r.Born = e.Nonce
	}
	r.mendNumbers()
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = "", 0, time.Time{}, false
	r.Log(Attempt{EndedAt: Stamp(e.Now), Outcome: OutcomeBuried, Error: why.Error(), Actor: e.By.Actor, Reason: e.By.Reason})
	r.bury(e, why.Error())
	return r
}

// Salvage puts the dead letter in the record's place. The guard refuses when somebody
// wrote the record meanwhile; a record without a head nonce is guarded by its revision
// alone. The second compare keeps a dead letter of that id from being overwritten.
func (t Txns) Salvage(kv *mvccpb.KeyValue, where Place, r *Record) (etcdkv.Txn, error) {
	value, err := r.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	from, dead := string(kv.Key), t.Keys.Dead(r.ID)
	txn := etcdkv.Txn{
		Origin: "repair",
		If:     etcdkv.Fence{Key: from, Token: kv.ModRevision, Nonce: keyspace.NonceOf(kv.Value)}.Cmps(), //mutant:salvage-guard
		Then:   []clientv3.Op{clientv3.OpPut(dead, string(value))},
		Else:   []clientv3.Op{clientv3.OpGet(from)},
	}
	if where != InDead {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(dead), "=", 0))
		txn.Then = append(txn.Then, clientv3.OpDelete(from))
		txn.Else = append(txn.Else, clientv3.OpGet(dead))
	}
	if was, err := ParseRecord(kv.Value); err == nil {
		was.ID = r.ID // it may name another job
		t.emptyInbox(&txn, Snapshot{Record: was})
	}
	return txn, nil
}

// Relocate deletes a job here and creates it there.
//
// The guard closes the race with whoever claims or changes the job meanwhile. The
// compares of the other queue keep an id in exactly one place: somebody may enqueue one
// of that id, and it may be done or dead by now. Nobody reports progress of a job that
// is not claimed; while one is, its owner's last checkpoint may still arrive, and must
// not stay behind.
func (t Txns) Relocate(l Snapshot, n Next, to Txns, beside Beside) (etcdkv.Txn, error) {
	value, err := n.Record.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	id, from := l.Record.ID, t.Key(l.Where, l.Record.ID)
	txn := etcdkv.Txn{
		Origin: "repair", InOrder: true, // its age there is the revision that puts it there
		If:   t.guard(l), //mutant:move-guard
		Then: []clientv3.Op{clientv3.OpPut(to.Key(n.Where, id), string(value)), clientv3.OpDelete(from)},
		Else: []clientv3.Op{clientv3.OpGet(from)},
	}
	for where := InJobs; where <= InDead; where++ {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(to.Key(where, id)), "=", 0)) //mutant:move-id-free
		txn.Else = append(txn.Else, clientv3.OpGet(to.Key(where, id)))
	}
	if l.Record.Claimed() { //mutant:move-progress
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(t.Keys.Progress(id)), "=", beside.ProgressRev))
	}
	t.emptyInbox(&txn, l)
	txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Payload(id)), clientv3.OpDelete(t.Keys.Progress(id)))
	// What an earlier job may have left there is not this one's.
	if l.Record.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(to.Keys.Payload(id), string(beside.Payload)))
	} else {
		txn.Then = append(txn.Then, clientv3.OpDelete(to.Keys.Payload(id)))
	}
	if beside.ProgressRev > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(to.Keys.Progress(id), string(beside.Progress)))
	} else {
		txn.Then = append(txn.Then, clientv3.OpDelete(to.Keys.Progress(id)))
	}
	return txn, nil
}

// Intervene changes a job on somebody else's behalf: cancel, break a claim,
// requeue. The guard refuses when the job moved since it was looked at.
func (t Txns) Intervene(l Snapshot, n Next, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	l.HasProgress = l.Record.Attempt > 0
	guard := t.guard(l) //mutant:intervene-guard
	txn, err := t.move(l, n, guard, lease)
	txn.Origin = "repair"
	if l.Where != InJobs {
		// A new job of this id must not be overwritten by an old one.
		job := t.Keys.Job(l.Record.ID)
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(job), "=", 0)) //mutant:requeue-id-free
		txn.Else = append(txn.Else, clientv3.OpGet(job))
	}
	if l.Where == InDead {
		t.clearBeside(&txn, l.Record)
	}
	return txn, err
}

// clearBeside deletes what lies beside a dead letter and is not its own: where it was
// made of a record that nobody could read, what was kept beside that is there yet, and
// must not become a later job's.
func (t Txns) clearBeside(txn *etcdkv.Txn, r *Record) {
	if r.Beside == 0 {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Payload(r.ID)))
	}
	if r.Attempt == 0 {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Progress(r.ID)))
	}
}

// MaxSalvage bounds what is kept of a record, in bytes, so that its base64 fits.
const MaxSalvage = 512 << 10
