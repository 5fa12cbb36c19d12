package admin

import (
	"context"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/workqueue"
)

// Bury moves a job that waits to the dead letters, with By.Reason as its error. It
// returns as Cancel does; a claimed job is not its to bury: see BreakClaim.
func Bury(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
	return intervene(ctx, q, id, job.VerbBury, by)
}

// BreakClaim takes a claimed job from its owner, who is fenced, and opens it. It
// returns as Cancel does.
func BreakClaim(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
	return intervene(ctx, q, id, job.VerbBreak, by)
}
