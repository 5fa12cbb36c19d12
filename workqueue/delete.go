package workqueue

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Delete takes a job away, wherever it is, with all that belongs to it: nothing of it
// is left, not even its trail, and its ID is free. Cancel ends a job and keeps that. A
// claimed job is refused, unless By.BreakClaim takes it from its owner, who is fenced.
//
// It returns the job as it was; [ErrNotFound]; [ErrNotApplicable] when the job is
// claimed; [ErrConflict] when By.Revision is not current.
func (q *Queue) Delete(ctx context.Context, id string, by By) (*Job, error) {
	what := fmt.Sprintf("delete: job %s of %s", id, q.name)
	if err := keyspace.ValidateName("id", id); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for range maxTries {
		l, _, err := q.find(ctx, id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case l.record == nil:
			return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
		case by.Revision != 0 && by.Revision != l.rev:
			return nil, conflict(what, fmt.Errorf("it is at revision %d, not %d", l.rev, by.Revision))
		case l.where == inJobs && l.record.claimed() && !by.BreakClaim:
			return nil, fmt.Errorf("%s: %w: it is claimed", what, ErrNotApplicable)
		}
		r, err := q.committer.Do(ctx, q.txns.remove(l))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case r.Succeeded:
			return l.record.view(q.name, l.where, l.rev, time.Now(), nobody), nil
		case by.Revision != 0:
			return nil, conflict(what, errMoved)
		}
	}
	return nil, conflict(what, errChanging)
}

// remove deletes a job and what lies beside it. The guard closes the race with whoever
// claims it, brings it back or changes it meanwhile. Beside what is done lies nothing
// of it: by mischance it may be another job's.
func (t txns) remove(l snapshot) etcdkv.Txn {
	id := l.record.ID
	key := t.key(l.where, id)
	txn := etcdkv.Txn{
		Origin: "repair",
		If:     t.guard(l), //mutant:delete-guard
		Then:   []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(t.keys.Refused(id))},
		Else:   []clientv3.Op{clientv3.OpGet(key)},
	}
	if l.where != inDone {
		txn.Then = append(txn.Then, clientv3.OpDelete(t.keys.Payload(id)), clientv3.OpDelete(t.keys.Progress(id)))
	}
	t.emptyInbox(&txn, l)
	return txn
}
