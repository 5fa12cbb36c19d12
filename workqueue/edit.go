package workqueue

import (
	"bytes"
	"context"
	"maps"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/usercode"
)

// Edit describes a waiting job anew: change gets its description as it is, and may
// change the payload, the kind, the labels, the priority, the time before which it is
// not claimed, the timeout and the limits of attempts and losses. What a change of the
// other fields would mean is not defined, so it is refused. The job keeps its place,
// its counters and its idempotency key. A claimed job is refused, unless By.BreakClaim
// takes it from its owner, who is fenced.
//
// change may be called again when the job moves meanwhile, unless By.Revision is set;
// an error or a panic of it ends the edit and is wrapped. It returns the job as it is then;
// [ErrNotFound]; [ErrNotApplicable] when the job is claimed or over; [ErrConflict] when
// By.Revision is not current; a [coord.InputError] for what no job can be.
func (q *Queue) Edit(ctx context.Context, id string, change func(*Params) error, by By) (*Job, error) {
	var payload []byte
	l, err := q.core.Retold(ctx, job.VerbEdit, id, by.inner(), func(l job.Snapshot, beside job.Beside) (job.Snapshot, error) {
		e, err := q.edition(l.Record, beside.Payload, change)
		if err != nil {
			return job.Snapshot{}, err
		}
		n, err := q.core.Intervention(l, job.Event{Verb: job.VerbEdit, Now: time.Now(), By: by.inner(), Edit: e})
		if err != nil {
			return job.Snapshot{}, err
		}
		txn, err := q.core.Txns.Edit(l, n, e)
		if err != nil {
			return job.Snapshot{}, err
		}
		r, err := q.core.Committer.Do(ctx, txn)
		switch {
		case err != nil:
			return job.Snapshot{}, err
		case !r.Succeeded:
			return job.Snapshot{}, queue.ErrMissed
		}
		payload = bytes.Clone(e.Payload)
		return n.At(r.Revision), nil
	})
	if err != nil {
		return nil, err
	}
	j := q.jobOf(l)
	j.Payload, j.PayloadSize = payload, len(payload)
	return j, nil
}

// edition asks how the job is to be described, and checks it.
func (q *Queue) edition(r *job.Record, payload []byte, change func(*Params) error) (*job.Edition, error) {
	was, p := paramsOf(r.Description(payload)), paramsOf(r.Description(payload))
	if err := usercode.Call(func() error { return change(&p) }); err != nil {
		return nil, err
	}
	for field, same := range map[string]bool{
		"id": p.ID == was.ID, "at most once": p.AtMostOnce == was.AtMostOnce, "dedup": p.Dedup == was.Dedup, "trace": maps.Equal(p.Trace, was.Trace),
	} {
		if !same {
			return nil, &coord.InputError{Field: field, Value: r.ID, Reason: "an edit cannot change it"}
		}
	}
	// What somebody else's limit let in may stay.
	if err := p.validate(max(q.cfg.MaxPayload, len(payload))); err != nil {
		return nil, err
	}
	return &job.Edition{Description: p.description(), Repacked: !bytes.Equal(p.Payload, payload)}, nil
}
