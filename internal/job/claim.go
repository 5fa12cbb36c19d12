package job

import (
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// Owner is an owner-to-be: a live session's key and create revision.
type Owner struct {
	ID  string
	Rev int64
}

// Claim gives an open job to a session.
//
// The guard closes the race with every other claimer. The session compare keeps a
// session that the server has given up from claiming: its claim would be an
// orphan that runs. The config compare makes a pause final: no claim is applied
// after it on older knowledge.
func (t Txns) Claim(l Snapshot, n Next, me Owner, config int64) (etcdkv.Txn, error) {
	value, err := n.Record.Encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	job := t.Keys.Job(l.Record.ID)
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

// Assignment is what an assignment was decided on: a job as it was seen, the worker, the
// mod revisions of its registration and of the queue's config, and, of an orphan, that of
// its progress.
type Assignment struct {
	Snapshot
	To         Owner
	Orphan     bool
	Registered int64
	Config     int64
	Progress   int64
}

// Assign gives a job to a worker on the dispatcher's behalf: exactly a claim, or a
// reclaim, by the worker's session, and an inbox entry that holds the record. The
// leader's fence refuses an assignment of a dispatcher that was deposed, however
// late it arrives. The compare of the worker's registration makes its leaving the
// queue final, and its taking fewer jobs: behind that nothing more is assigned to it
// on older knowledge, so it can give back all that was.
func (t Txns) Assign(a Assignment, n Next, leader etcdkv.Fence) (etcdkv.Txn, error) {
	l, to := a.Snapshot, a.To
	var txn etcdkv.Txn
	var err error
	if a.Orphan {
		txn, err = t.Reclaim(l, n, to, a.Config, a.Progress)
	} else {
		txn, err = t.Claim(l, n, to, a.Config)
	}
	if err != nil {
		return etcdkv.Txn{}, err
	}
	txn.Origin = "assign"
	txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(t.Keys.Worker(to.ID)), "=", a.Registered)) //mutant:assign-worker
	txn.If = append(txn.If, leader.Cmps()...)                                                                //mutant:assign-leader
	if !n.Claims() {
		return txn, nil
	}
	// The worker reads what lies beside when it begins.
	txn.Then = slices.DeleteFunc(txn.Then, clientv3.Op.IsGet)
	txn.Then = append(txn.Then, clientv3.OpPut(t.Keys.Assigned(to.ID, l.Record.ID), string(txn.Then[0].ValueBytes())))
	return txn, nil
}

// emptyInbox takes the inbox entry of a claim away that ends.
func (t Txns) emptyInbox(txn *etcdkv.Txn, l Snapshot) {
	if l.Record.Claimed() && l.Record.Assigned {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.Keys.Assigned(l.Record.Owner, l.Record.ID)))
	}
}

// mayClaim holds while the record is as it was read, me lives, and the config is
// the one that was seen.
func (t Txns) mayClaim(l Snapshot, me Owner, config int64) []clientv3.Cmp {
	return append(t.guard(l),
		clientv3.Compare(clientv3.CreateRevision(t.Space.Session(me.ID)), "=", me.Rev), //mutant:claim-session
		clientv3.Compare(clientv3.ModRevision(t.Keys.Config()), "=", config))           //mutant:claim-config
}

// readBeside adds what a claimer needs beside the record: the payload, and what
// earlier attempts checkpointed.
func (t Txns) readBeside(txn *etcdkv.Txn, l Snapshot) {
	if l.Record.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpGet(t.Keys.Payload(l.Record.ID)))
	}
	if l.Record.Attempt > 0 {
		txn.Then = append(txn.Then, clientv3.OpGet(t.Keys.Progress(l.Record.ID)))
	}
}

// Reclaim takes an orphan: as claim, and its owner's session is gone, proven in
// the Txn itself, since every mirror lags. The progress compare makes the count of
// losses exact: an owner's last checkpoint may still arrive, and then the loss does
// not count.
func (t Txns) Reclaim(l Snapshot, n Next, me Owner, config, progress int64) (etcdkv.Txn, error) {
	var txn etcdkv.Txn
	var err error
	if n.Claims() {
		txn, err = t.Claim(l, n, me, config)
	} else {
		// Whoever has lost its own session has no say in whether a loss counts.
		txn, err = t.move(l, n, t.mayClaim(l, me, config), 0)
		txn.Origin = "reclaim"
	}
	if err != nil {
		return etcdkv.Txn{}, err
	}
	txn.If = append(txn.If,
		clientv3.Compare(clientv3.CreateRevision(t.Space.Session(l.Record.Owner)), "!=", l.Record.OwnerRev), //mutant:reclaim-owner-gone
		clientv3.Compare(clientv3.ModRevision(t.Keys.Progress(l.Record.ID)), "=", progress))                 //mutant:reclaim-progress
	return txn, nil
}
