package queue

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

// Intervene makes a transition on somebody's behalf, guarded by what was read.
func (q *Core) Intervene(ctx context.Context, id string, v job.Verb, by job.By) (job.Snapshot, error) {
	what := fmt.Sprintf("%s: job %s of %s", v, id, q.Name())
	if err := errors.Join(by.Validate(), keyspace.ValidateName("id", id)); err != nil {
		return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
	}
	for range MaxTries {
		l, resp, err := q.Find(ctx, id, clientv3.OpGet(q.Keys().Config()))
		if err != nil {
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
		}
		q.Mirrors.Learn(resp.Responses[3].GetResponseRange().Kvs)
		switch {
		case l.Record == nil:
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, job.ErrNotFound)
		case by.Revision != 0 && by.Revision != l.Rev: //mutant:repair-shown
			return job.Snapshot{}, Conflict(what, fmt.Errorf("it is at revision %d, not %d", l.Rev, by.Revision))
		}
		at, err := q.interveneOn(ctx, l, v, by)
		if errors.Is(err, ErrMissed) {
			continue
		}
		if err != nil {
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
		}
		return at, nil
	}
	return job.Snapshot{}, Conflict(what, errors.New("others keep changing it"))
}

// interveneOn makes one try; ErrMissed means that the job moved meanwhile.
func (q *Core) interveneOn(ctx context.Context, l job.Snapshot, v job.Verb, by job.By) (job.Snapshot, error) {
	if v == job.VerbRequeue && l.Where == job.InDone && l.Record.Beside > 0 {
		return job.Snapshot{}, fmt.Errorf("%w: its payload was larger than 1 KiB and went when it ended; enqueue it anew", job.ErrNotApplicable)
	}
	n, err := q.Intervention(l, job.Event{Verb: v, Now: time.Now(), By: by, Delay: q.Delay()})
	if err != nil {
		return job.Snapshot{}, err
	}
	for {
		var lease clientv3.LeaseID
		if n.Where == job.InDone {
			if lease, err = q.Retention.Lease(ctx, n.Record.Size()); err != nil {
				return job.Snapshot{}, err
			}
		}
		txn, err := q.Txns.Intervene(l, n, lease)
		if err != nil {
			return job.Snapshot{}, err
		}
		r, err := q.Committer.Do(ctx, txn)
		switch {
		case err == nil && r.Succeeded:
			return n.At(r.Revision), nil
		case err == nil:
			return job.Snapshot{}, ErrMissed
		case lease != clientv3.NoLease && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
			q.Retention.Lost(lease)
		default:
			return job.Snapshot{}, err
		}
	}
}

// Retold tries an intervention that needs what lies beside the record, again when the
// job moved meanwhile, which try tells by ErrMissed.
func (q *Core) Retold(ctx context.Context, v job.Verb, id string, by job.By, try func(job.Snapshot, job.Beside) (job.Snapshot, error)) (job.Snapshot, error) {
	what := fmt.Sprintf("%s: job %s of %s", v, id, q.Name())
	if err := errors.Join(by.Validate(), keyspace.ValidateName("id", id)); err != nil {
		return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
	}
	for range MaxTries {
		l, b, err := q.findBeside(ctx, id, 0)
		switch {
		case err != nil:
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
		case l.Record == nil:
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, job.ErrNotFound)
		case by.Revision != 0 && by.Revision != l.Rev:
			return job.Snapshot{}, Conflict(what, fmt.Errorf("it is at revision %d, not %d", l.Rev, by.Revision))
		}
		if l.Where != job.InDone && len(b.Payload) < l.Record.Beside {
			return job.Snapshot{}, fmt.Errorf("%s: %w: its payload of %d bytes is gone", what, job.ErrNotApplicable, l.Record.Beside)
		}
		at, err := try(l, b)
		switch {
		case errors.Is(err, ErrMissed) && by.Revision != 0:
			return job.Snapshot{}, Conflict(what, ErrMoved)
		case errors.Is(err, ErrMissed):
			continue
		case err != nil:
			return job.Snapshot{}, fmt.Errorf("%s: %w", what, err)
		}
		return at, nil
	}
	return job.Snapshot{}, Conflict(what, ErrChanging)
}

// Intervention makes the next record, or tells in which state the job is that does not
// allow it.
func (q *Core) Intervention(l job.Snapshot, e job.Event) (job.Next, error) {
	e.Nonce, e.Token = keyspace.NewNonce(), job.Token(l.Rev)
	n, err := job.Transition(l.Record, l.Where, e)
	if err != nil {
		err = fmt.Errorf("%w: it is %s", job.ErrNotApplicable, l.Record.State(l.Where, e.Now, func(string, int64) bool { return true }))
		taking := e.Verb == job.VerbEdit || e.Verb == job.VerbMove
		if taking && l.Where == job.InJobs && l.Record.Claimed() && l.Record.AtMostOnce {
			err = fmt.Errorf("%w, and may be started at most once", err)
		}
	}
	return n, err
}
