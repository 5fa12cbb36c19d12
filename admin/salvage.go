package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Salvage makes a dead letter of a record that cannot be read, wherever it lies under
// that ID. What of it can be read is kept; where that is not certain to be all, the
// payload is the whole record, byte for byte. By.Revision must be the mod revision of
// the record that was seen. It returns the dead letter; [workqueue.ErrNotFound] when nothing is
// there; [workqueue.ErrConflict] when the record moved; [workqueue.ErrNotApplicable] when it can be read,
// when a newer program could read it ([workqueue.ErrNewer] too), when it is too large, or when
// there is a dead letter of that ID already.
func Salvage(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
	what := fmt.Sprintf("salvage: job %s of %s", id, coreOf(q).Name())
	if err := errors.Join(job.By(by).Validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if by.Revision <= 0 {
		return nil, fmt.Errorf("%s: %w", what, &coord.InputError{Field: "revision", Value: fmt.Sprint(by.Revision), Reason: "it is that of the record that was seen"})
	}
	resp, err := coreOf(q).Store.Read(ctx, clientv3.OpGet(coreOf(q).Keys().Job(id)), clientv3.OpGet(coreOf(q).Keys().Done(id)), clientv3.OpGet(coreOf(q).Keys().Dead(id)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found := 0
	for where := job.InJobs; where <= job.InDead; where++ {
		for _, kv := range resp.Responses[where].GetResponseRange().Kvs {
			found++
			if kv.ModRevision == by.Revision {
				return salvage(ctx, q, what, id, where, kv, by)
			}
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("%s: %w", what, workqueue.ErrNotFound)
	}
	return nil, queue.Conflict(what, fmt.Errorf("it is not at revision %d any more", by.Revision))
}

func salvage(ctx context.Context, q *workqueue.Queue, what, id string, where job.Place, kv *mvccpb.KeyValue, by workqueue.By) (*workqueue.Job, error) {
	_, why := coreOf(q).Txns.Decode(where, kv)
	switch {
	case why == nil:
		return nil, fmt.Errorf("%s: %w: it can be read", what, workqueue.ErrNotApplicable)
	case errors.Is(why, workqueue.ErrNewer):
		return nil, fmt.Errorf("%s: %w: %w", what, workqueue.ErrNotApplicable, why)
	case len(kv.Value) > job.MaxSalvage:
		return nil, fmt.Errorf("%s: %w: it has %d bytes, at most %d can be kept", what, workqueue.ErrNotApplicable, len(kv.Value), job.MaxSalvage)
	}
	e := job.Event{Now: time.Now(), Nonce: keyspace.NewNonce(), By: job.By(by)}
	r := job.Salvaged(id, kv.Value, why, e)
	txn, err := coreOf(q).Txns.Salvage(kv, where, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	done, err := coreOf(q).Committer.Do(ctx, txn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case done.Succeeded:
		return viewOf(r, coreOf(q).Name(), job.InDead, done.Revision, e.Now, queue.Nobody), nil
	case done.Get(1) != nil:
		return nil, fmt.Errorf("%s: %w: there is a dead letter of that id already", what, workqueue.ErrNotApplicable)
	}
	return nil, queue.Conflict(what, queue.ErrMoved)
}
