package admin

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Remove takes away what is left of an empty queue: its config, and with it its mode
// and its pause. A queue is its keys, so it is not listed any more then; whoever
// enqueues to it, or configures it, makes it anew.
//
// By.Revision guards the config, as [Settings] shows it. It returns
// [workqueue.ErrNotApplicable] while the queue has jobs, live, dead or kept, or workers, and
// [workqueue.ErrConflict] when the config is not at By.Revision any more.
func Remove(ctx context.Context, q *workqueue.Queue, by workqueue.By) error {
	what := "remove queue " + coreOf(q).Name()
	for range queue.MaxTries {
		resp, err := coreOf(q).Store.Get(ctx, coreOf(q).Keys().Config())
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		seen := int64(0)
		if len(resp.Kvs) > 0 {
			seen = resp.Kvs[0].ModRevision
		}
		if by.Revision != 0 && by.Revision != seen {
			return queue.Conflict(what, fmt.Errorf("its config is at revision %d, not %d", seen, by.Revision))
		}
		workers, err := coreOf(q).Store.List(ctx, coreOf(q).Keys().Workers())
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		left := int64(0)
		for _, kv := range workers.Kvs {
			if !job.DecodeWorker(kv.Value).Left {
				return fmt.Errorf("%s: %w", what, errInhabited)
			}
			left = max(left, kv.ModRevision)
		}
		r, err := coreOf(q).Committer.Do(ctx, coreOf(q).Txns.Disband(seen, left))
		now := int64(0)
		if kv := r.Get(0); kv != nil {
			now = kv.ModRevision
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case r.Succeeded:
			return nil
		case now == seen:
			return fmt.Errorf("%s: %w", what, errInhabited)
		}
	}
	return queue.Conflict(what, queue.ErrChanging)
}

// errInhabited keeps a queue from being removed.
var errInhabited = fmt.Errorf("%w: it has jobs or workers", workqueue.ErrNotApplicable)
