package workqueue

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Move takes a job, live or dead, to another queue of the same root, with its payload,
// its checkpoint and its trail: what is live stands there behind the jobs that wait,
// what is dead is a dead letter there. Both happen at once or not at all. A claimed job
// is refused, unless By.BreakClaim takes it from its owner, who is fenced.
//
// It returns the job as it is there; [ErrNotFound]; [ErrExists] when the other queue
// has, or keeps, a job of that ID; [ErrNotApplicable] when the job is claimed, done or
// cancelled; [ErrConflict] when By.Revision is not current.
func (q *Queue) Move(ctx context.Context, id, to string, by By) (*Job, error) {
	if err := keyspace.ValidateName("to", to); err != nil {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.name, err)
	}
	if to == q.name {
		return nil, fmt.Errorf("move: job %s of %s: %w", id, q.name, &coord.InputError{Field: "to", Value: to, Reason: "it is there already"})
	}
	there := txns{keys: q.store.Keys().Queue(to), space: q.txns.space}
	return q.retold(ctx, verbMove, id, by, func(l snapshot, beside besides) (*Job, error) {
		now := time.Now()
		n, err := q.intervention(l, event{verb: verbMove, now: now, by: by, from: q.name})
		if err != nil {
			return nil, err
		}
		txn, err := q.txns.relocate(l, n, there, beside)
		if err != nil {
			return nil, err
		}
		r, err := q.committer.Do(ctx, txn)
		switch {
		case err != nil:
			return nil, err
		case r.Succeeded:
			return n.record.view(to, n.where, r.Revision, now, nobody), nil
		case r.Get(1) != nil || r.Get(2) != nil || r.Get(3) != nil:
			return nil, fmt.Errorf("%w in queue %s too", ErrExists, to)
		}
		return nil, errMissed
	})
}

// leave takes a record to another queue: what is dead stays dead, all else is open.
func (r *record) leave(e event, where place) next {
	runAt := r.RunAt
	r.intervened(e, outcomeMoved)
	r.Attempts[len(r.Attempts)-1].From = e.from
	if where == inDead {
		return next{r, inDead}
	}
	return r.reopen(runAt)
}

// relocate deletes a job here and creates it there.
//
// The guard closes the race with whoever claims or changes the job meanwhile. The
// compares of the other queue keep an id in exactly one place: somebody may enqueue one
// of that id, and it may be done or dead by now. Nobody reports progress of a job that
// is not claimed; while one is, its owner's last checkpoint may still arrive, and must
// not stay behind.
func (t txns) relocate(l snapshot, n next, to txns, beside besides) (etcdkv.Txn, error) {
	value, err := n.record.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	id, from := l.record.ID, t.key(l.where, l.record.ID)
	txn := etcdkv.Txn{
		Origin: "repair", InOrder: true, // its age there is the revision that puts it there
		If:   t.guard(l), //mutant:move-guard
		Then: []clientv3.Op{clientv3.OpPut(to.key(n.where, id), string(value)), clientv3.OpDelete(from)},
		Else: []clientv3.Op{clientv3.OpGet(from)},
	}
	for where := inJobs; where <= inDead; where++ {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(to.key(where, id)), "=", 0)) //mutant:move-id-free
		txn.Else = append(txn.Else, clientv3.OpGet(to.key(where, id)))
	}
	if l.record.claimed() { //mutant:move-progress
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(t.keys.Progress(id)), "=", beside.progressRev))
	}
	t.emptyInbox(&txn, l)
	txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Payload(id)), clientv3.OpDelete(t.keys.Progress(id)))
	// What an earlier job may have left there is not this one's.
	if l.record.Beside > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(to.keys.Payload(id), string(beside.payload)))
	} else {
		txn.Then = append(txn.Then, clientv3.OpDelete(to.keys.Payload(id)))
	}
	if beside.progressRev > 0 {
		txn.Then = append(txn.Then, clientv3.OpPut(to.keys.Progress(id), string(beside.progress)))
	} else {
		txn.Then = append(txn.Then, clientv3.OpDelete(to.keys.Progress(id)))
	}
	return txn, nil
}
