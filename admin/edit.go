package admin

import (
	"bytes"
	"context"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/usercode"
	"github.com/leasekit/leasekit/workqueue"
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
// [workqueue.ErrNotFound]; [workqueue.ErrNotApplicable] when the job is claimed or over; [workqueue.ErrConflict] when
// By.Revision is not current; a [coord.InputError] for what no job can be.
func Edit(ctx context.Context, q *workqueue.Queue, id string, change func(*workqueue.Params) error, by workqueue.By) (*workqueue.Job, error) {
	var payload []byte
	l, err := coreOf(q).Retold(ctx, job.VerbEdit, id, job.By(by), func(l job.Snapshot, beside job.Beside) (job.Snapshot, error) {
		e, err := job.Edit(l.Record, beside.Payload, coreOf(q).MaxPayload, func(d *job.Description) error {
			p := describe(*d)
			if err := usercode.Call(func() error { return change(&p) }); err != nil {
				return err
			}
			if p.Dedup != 0 {
				return &coord.InputError{Field: "dedup", Value: id, Reason: "an edit cannot change it"}
			}
			*d = description(p)
			return nil
		})
		if err != nil {
			return job.Snapshot{}, err
		}
		n, err := coreOf(q).Intervention(l, job.Event{Verb: job.VerbEdit, Now: time.Now(), By: job.By(by), Edit: e})
		if err != nil {
			return job.Snapshot{}, err
		}
		txn, err := coreOf(q).Txns.Edit(l, n, e)
		if err != nil {
			return job.Snapshot{}, err
		}
		r, err := coreOf(q).Committer.Do(ctx, txn)
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
	j := jobOf(q, l)
	j.Payload, j.PayloadSize = payload, len(payload)
	return j, nil
}
