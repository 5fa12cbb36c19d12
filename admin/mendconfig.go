package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// MendConfig replaces a config of the queue that cannot be read. The new one pauses
// the queue, with By as who did it and why: under one that cannot be read nothing is
// claimed either, and nobody knows whether it said so. What else of it can be read, as
// the mode and the settings, stays. By.Revision must be the mod revision of the config that was seen.
// It returns [workqueue.ErrConflict] when the config moved, and [workqueue.ErrNotApplicable] when it can be
// read.
func MendConfig(ctx context.Context, q *workqueue.Queue, by workqueue.By) error {
	what := "mend the config of queue " + coreOf(q).Name()
	if err := job.By(by).Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if by.Revision <= 0 {
		return fmt.Errorf("%s: %w", what, &coord.InputError{Field: "revision", Value: fmt.Sprint(by.Revision), Reason: "it is that of the config that was seen"})
	}
	resp, err := coreOf(q).Store.Get(ctx, coreOf(q).Keys().Config())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision != by.Revision {
		return queue.Conflict(what, fmt.Errorf("it is not at revision %d any more", by.Revision))
	}
	if _, err := job.DecodeConfig(resp.Kvs[0].Value); err == nil {
		return fmt.Errorf("%s: %w: it can be read", what, workqueue.ErrNotApplicable)
	}
	c := job.SalvagedConfig(resp.Kvs[0].Value)
	c.Paused, c.Actor, c.Reason, c.At = true, by.Actor, by.Reason, job.Stamp(time.Now())
	txn, err := coreOf(q).Txns.Configure(c, by.Revision)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r, err := coreOf(q).Committer.Do(ctx, txn)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case !r.Succeeded:
		return queue.Conflict(what, queue.ErrMoved)
	}
	return nil
}
