package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Cancel ends a live job as cancelled, whoever owns it: a running owner is fenced
// and its context ends with cause [ErrCancelled]. It returns the job as it is
// then; [ErrNotFound]; [ErrNotApplicable] when the job is over already;
// [ErrConflict] when By.Revision is not current.
func (q *Queue) Cancel(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbCancel, by)
}

// Requeue brings a dead, done or cancelled job back, its counters reset, its trail
// kept, behind the jobs that wait. From done only while the payload is still
// there. A job that waits for its next attempt after a failure or a loss is due at
// once, in its old place, its counters reset too. It returns as Cancel does.
func (q *Queue) Requeue(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbRequeue, by)
}

// BreakClaim takes a claimed job from its owner, who is fenced, and opens it. It
// returns as Cancel does.
func (q *Queue) BreakClaim(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbBreak, by)
}

// intervene makes a transition on somebody's behalf, guarded by what was read.
func (q *Queue) intervene(ctx context.Context, id string, v job.Verb, by By) (*Job, error) {
	what := fmt.Sprintf("%s: job %s of %s", v, id, q.name)
	if err := errors.Join(by.validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for range maxTries {
		l, resp, err := q.find(ctx, id, clientv3.OpGet(q.keys.Config()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		q.learn(resp.Responses[3].GetResponseRange().Kvs)
		switch {
		case l.Record == nil:
			return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
		case by.Revision != 0 && by.Revision != l.Rev: //mutant:repair-shown
			return nil, conflict(what, fmt.Errorf("it is at revision %d, not %d", l.Rev, by.Revision))
		}
		job, err := q.interveneOn(ctx, l, v, by)
		if errors.Is(err, errMissed) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return job, nil
	}
	return nil, conflict(what, errors.New("others keep changing it"))
}

// interveneOn makes one try; errMissed means that the job moved meanwhile.
func (q *Queue) interveneOn(ctx context.Context, l job.Snapshot, v job.Verb, by By) (*Job, error) {
	if v == job.VerbRequeue && l.Where == job.InDone && l.Record.Beside > 0 {
		return nil, fmt.Errorf("%w: its payload was larger than 1 KiB and went when it ended; enqueue it anew", ErrNotApplicable)
	}
	e := job.Event{Verb: v, Now: time.Now(), Nonce: keyspace.NewNonce(), Token: job.Token(l.Rev), By: by.inner(), Delay: q.delay()}
	n, err := job.Transition(l.Record, l.Where, e)
	if err != nil {
		return nil, fmt.Errorf("%w: it is %s", err, l.Record.State(l.Where, e.Now, func(string, int64) bool { return true }))
	}
	for {
		var lease clientv3.LeaseID
		if n.Where == job.InDone {
			if lease, err = q.retention.lease(ctx, n.Record.Size()); err != nil {
				return nil, err
			}
		}
		txn, err := q.txns.Intervene(l, n, lease)
		if err != nil {
			return nil, err
		}
		r, err := q.committer.Do(ctx, txn)
		switch {
		case err == nil && r.Succeeded:
			return view(n.Record, q.name, n.Where, r.Revision, time.Now(), nobody), nil
		case err == nil:
			return nil, errMissed
		case lease != clientv3.NoLease && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
			q.retention.lost(lease)
		default:
			return nil, err
		}
	}
}
