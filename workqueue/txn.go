package workqueue

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// snapshot is a record as it was read: the guard of every transition is its mod
// revision and head nonce.
type snapshot struct {
	record *record
	where  place
	rev    int64
	// created is the revision that put the key there, where that was asked for.
	created int64
	// hasProgress tells that a progress key may exist, so that it is not forgotten.
	hasProgress bool
}

// isFrom tells whether kv is what was read. The revision alone does not: after a restore
// from a backup, numbers come again, for other values.
func (l snapshot) isFrom(kv *mvccpb.KeyValue) bool {
	return kv != nil && kv.ModRevision == l.rev && keyspace.NonceOf(kv.Value) == l.record.Nonce
}

// session is an owner-to-be: a live session's key and create revision.
type session struct {
	id  string
	rev int64
}

// txns builds the Txn of each transition, as a plain value. It knows no etcd.
type txns struct {
	keys  keyspace.QueueKeys
	space keyspace.Keyspace
}

func (t txns) key(where place, id string) string {
	switch where {
	case inDone:
		return t.keys.Done(id)
	case inDead:
		return t.keys.Dead(id)
	}
	return t.keys.Job(id)
}

// put is a put of bytes that nobody changes any more: they are not copied.
func put(key string, value []byte, opts ...clientv3.OpOption) clientv3.Op {
	op := clientv3.OpPut(key, "", opts...)
	op.WithValueBytes(value)
	return op
}

// guard holds while the record is as it was read.
func (t txns) guard(l snapshot) []clientv3.Cmp {
	return coord.Fence{Key: t.key(l.where, l.record.ID), Token: coord.Token(l.rev), Nonce: l.record.Nonce}.Cmps() //mutant:job-guard
}

// enqueueSeen is what is known of earlier jobs of the same id: the mod revisions of
// what they left, or that the id was drawn just now, so that there was none.
type enqueueSeen struct {
	done, dead int64
	drawn      bool
}

// enqueue creates a job. The compares close the races with another enqueue of the
// same id (CreateRev), and with a job of that id that finishes, or is requeued,
// between our read and our write (done, dead): nobody else has an id that was drawn.
func (t txns) enqueue(r *record, payload []byte, seen enqueueSeen) (etcdkv.Txn, error) {
	value, err := r.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	job, done, dead := t.keys.Job(r.ID), t.keys.Done(r.ID), t.keys.Dead(r.ID)
	txn := etcdkv.Txn{
		Origin: "enqueue",
		// A job's age is the revision that creates it.
		InOrder: true,
		If:      []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(job), "=", 0)}, //mutant:enqueue-new
		Then:    []clientv3.Op{put(job, value)},
		Else:    []clientv3.Op{clientv3.OpGet(job)},
	}
	if r.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(t.keys.Payload(r.ID), string(payload)))
	}
	if seen.drawn {
		return txn, nil
	}
	txn.If = append(txn.If,
		clientv3.Compare(clientv3.ModRevision(done), "=", seen.done), //mutant:enqueue-done
		clientv3.Compare(clientv3.ModRevision(dead), "=", seen.dead)) //mutant:enqueue-dead
	txn.Else = append(txn.Else, clientv3.OpGet(done), clientv3.OpGet(dead))
	if seen != (enqueueSeen{}) {
		txn.Then = append(txn.Then, clientv3.OpDelete(done), clientv3.OpDelete(dead), clientv3.OpDelete(t.keys.Progress(r.ID)))
		if r.Beside == 0 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Payload(r.ID)))
		}
	}
	return txn, nil
}

// claim gives an open job to a session.
//
// The guard closes the race with every other claimer. The session compare keeps a
// session that the server has given up from claiming: its claim would be an
// orphan that runs. The config compare makes a pause final: no claim is applied
// after it on older knowledge.
func (t txns) claim(l snapshot, n next, me session, config int64) (etcdkv.Txn, error) {
	value, err := n.record.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	job := t.keys.Job(l.record.ID)
	txn := etcdkv.Txn{
		Origin: "claim",
		If:     t.mayClaim(l, me, config),
		Then:   []clientv3.Op{put(job, value)},
		Else:   []clientv3.Op{clientv3.OpGet(job)},
	}
	t.readBeside(&txn, l)
	t.emptyInbox(&txn, l)
	return txn, nil
}

// assign gives a job to a worker on the dispatcher's behalf: exactly a claim, or a
// reclaim, by the worker's session, and an inbox entry that holds the record. The
// leader's fence refuses an assignment of a dispatcher that was deposed, however
// late it arrives. The compare of the worker's registration makes its leaving the
// queue final, and its taking fewer jobs: behind that nothing more is assigned to it
// on older knowledge, so it can give back all that was.
func (t txns) assign(a assignment, n next, progress int64, leader coord.Fence) (etcdkv.Txn, error) {
	l, to := a.c.snapshot, a.to
	var txn etcdkv.Txn
	var err error
	if a.c.orphan {
		txn, err = t.reclaim(l, n, to, a.c.config, progress)
	} else {
		txn, err = t.claim(l, n, to, a.c.config)
	}
	if err != nil {
		return etcdkv.Txn{}, err
	}
	txn.Origin = "assign"
	txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(t.keys.Worker(to.id)), "=", a.registered)) //mutant:assign-worker
	txn.If = append(txn.If, leader.Cmps()...)                                                                //mutant:assign-leader
	if !n.claims() {
		return txn, nil
	}
	// The worker reads what lies beside when it begins.
	txn.Then = slices.DeleteFunc(txn.Then, clientv3.Op.IsGet)
	txn.Then = append(txn.Then, clientv3.OpPut(t.keys.Assigned(to.id, l.record.ID), string(txn.Then[0].ValueBytes())))
	return txn, nil
}

// emptyInbox takes the inbox entry of a claim away that ends.
func (t txns) emptyInbox(txn *etcdkv.Txn, l snapshot) {
	if l.record.claimed() && l.record.Assigned {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Assigned(l.record.Owner, l.record.ID)))
	}
}

// mayClaim holds while the record is as it was read, me lives, and the config is
// the one that was seen.
func (t txns) mayClaim(l snapshot, me session, config int64) []clientv3.Cmp {
	return append(t.guard(l),
		clientv3.Compare(clientv3.CreateRevision(t.space.Session(me.id)), "=", me.rev), //mutant:claim-session
		clientv3.Compare(clientv3.ModRevision(t.keys.Config()), "=", config))           //mutant:claim-config
}

// readBeside adds what a claimer needs beside the record: the payload, and what
// earlier attempts checkpointed.
func (t txns) readBeside(txn *etcdkv.Txn, l snapshot) {
	if l.record.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpGet(t.keys.Payload(l.record.ID)))
	}
	if l.record.Attempt > 0 {
		txn.Then = append(txn.Then, clientv3.OpGet(t.keys.Progress(l.record.ID)))
	}
}

// reclaim takes an orphan: as claim, and its owner's session is gone, proven in
// the Txn itself, since every mirror lags. The progress compare makes the count of
// losses exact: an owner's last checkpoint may still arrive, and then the loss does
// not count.
func (t txns) reclaim(l snapshot, n next, me session, config, progress int64) (etcdkv.Txn, error) {
	var txn etcdkv.Txn
	var err error
	if n.claims() {
		txn, err = t.claim(l, n, me, config)
	} else {
		// Whoever has lost its own session has no say in whether a loss counts.
		txn, err = t.move(l, n, t.mayClaim(l, me, config), 0)
		txn.Origin = "reclaim"
	}
	if err != nil {
		return etcdkv.Txn{}, err
	}
	txn.If = append(txn.If,
		clientv3.Compare(clientv3.CreateRevision(t.space.Session(l.record.Owner)), "!=", l.record.OwnerRev), //mutant:reclaim-owner-gone
		clientv3.Compare(clientv3.ModRevision(t.keys.Progress(l.record.ID)), "=", progress))                 //mutant:reclaim-progress
	return txn, nil
}

// close ends a claim under its fence: complete, fail, snooze, release, cancel from
// inside. The fence is what refuses a late write of an owner that was superseded.
func (t txns) close(f coord.Fence, l snapshot, n next, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	fence := f.Cmps() //mutant:close-fence
	return t.move(l, n, fence, lease)
}

// intervene changes a job on somebody else's behalf: cancel, break a claim,
// requeue. The guard refuses when the job moved since it was looked at.
func (t txns) intervene(l snapshot, n next, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	l.hasProgress = l.record.Attempt > 0
	guard := t.guard(l) //mutant:intervene-guard
	txn, err := t.move(l, n, guard, lease)
	txn.Origin = "repair"
	if l.where != inJobs {
		// A new job of this id must not be overwritten by an old one.
		job := t.keys.Job(l.record.ID)
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(job), "=", 0)) //mutant:requeue-id-free
		txn.Else = append(txn.Else, clientv3.OpGet(job))
	}
	if l.where == inDead {
		t.clearBeside(&txn, l.record)
	}
	return txn, err
}

// clearBeside deletes what lies beside a dead letter and is not its own: where it was
// made of a record that nobody could read, what was kept beside that is there yet, and
// must not become a later job's.
func (t txns) clearBeside(txn *etcdkv.Txn, r *record) {
	if r.Beside == 0 {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Payload(r.ID)))
	}
	if r.Attempt == 0 {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Progress(r.ID)))
	}
}

// move writes the next record where it belongs and takes the old one away, with
// what lies beside it once nobody needs it. A lease is for what goes to done/.
func (t txns) move(l snapshot, n next, guard []clientv3.Cmp, lease clientv3.LeaseID) (etcdkv.Txn, error) {
	if n.where == inDone && lease == clientv3.NoLease { //mutant:done-lease
		return etcdkv.Txn{}, fmt.Errorf("keep job %s: a finished job needs a retention lease", l.record.ID)
	}
	value, err := n.record.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	from, to := t.key(l.where, l.record.ID), t.key(n.where, l.record.ID)
	var opts []clientv3.OpOption
	if n.where == inDone {
		opts = append(opts, clientv3.WithLease(lease))
	}
	txn := etcdkv.Txn{
		Origin: "close",
		If:     guard,
		Then:   []clientv3.Op{put(to, value, opts...)},
		Else:   []clientv3.Op{clientv3.OpGet(from)},
	}
	if from != to {
		txn.Then = append(txn.Then, clientv3.OpDelete(from))
	}
	t.emptyInbox(&txn, l)
	if n.where == inDone {
		if l.record.Beside > 0 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Payload(l.record.ID)))
		}
		if l.hasProgress || l.record.Attempt > 1 {
			txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Progress(l.record.ID)))
		}
	}
	return txn, nil
}

// progress writes a report or a checkpoint beside a claimed job; the token stays.
// The second compare keeps reports in order: a late original must not overwrite a
// newer checkpoint of the same claim.
func (t txns) progress(f coord.Fence, id, value string, seen int64) etcdkv.Txn {
	key := t.keys.Progress(id)
	return etcdkv.Txn{
		Origin: "progress",
		If: append(
			f.Cmps(), //mutant:progress-fence
			clientv3.Compare(clientv3.ModRevision(key), "=", seen)), //mutant:progress-order
		Then: []clientv3.Op{clientv3.OpPut(key, value)},
		Else: []clientv3.Op{clientv3.OpGet(f.Key), clientv3.OpGet(key)},
	}
}
