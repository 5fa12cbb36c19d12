package queue

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/job"
)

// Change writes a changed config, again when somebody else was faster.
func (q *Core) Change(ctx context.Context, what string, by job.By, edit func(*job.QueueConfig) error) error {
	if err := by.Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for range MaxTries {
		resp, err := q.Store.Get(ctx, q.Keys().Config())
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		c, rev, err := job.ConfigIn(resp.Kvs)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if by.Revision != 0 && by.Revision != rev { //mutant:config-shown
			return Conflict(what, fmt.Errorf("its config is at revision %d, not %d", rev, by.Revision))
		}
		if err := edit(&c); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		txn, err := q.Txns.Configure(c, rev)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		r, err := q.Committer.Do(ctx, txn)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if r.Succeeded {
			return nil
		}
	}
	return Conflict(what, fmt.Errorf("others keep changing its config"))
}
