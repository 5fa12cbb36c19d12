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

// intervene makes a transition on somebody's behalf.
func intervene(ctx context.Context, q *workqueue.Queue, id string, v job.Verb, by workqueue.By) (*workqueue.Job, error) {
	l, err := coreOf(q).Intervene(ctx, id, v, job.By(by))
	if err != nil {
		return nil, err
	}
	return jobOf(q, l), nil
}
