package history

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

// Queue is a workqueue.Queue whose calls are recorded. Methods that are not here are
// those of the embedded queue, and are not recorded.
type Queue struct {
	*workqueue.Queue
	rec    *Recorder
	client string
}

// Queue records the calls of q in the name of client.
func (r *Recorder) Queue(client string, q *workqueue.Queue) *Queue {
	return &Queue{Queue: q, rec: r, client: client}
}

// Enqueue is [workqueue.Queue.Enqueue]. Params.ID must not be empty.
func (q *Queue) Enqueue(ctx context.Context, p workqueue.Params) (*workqueue.Job, error) {
	panic("not yet")
}

// EnqueueBatch is [workqueue.Queue.EnqueueBatch]. No ID may be empty.
func (q *Queue) EnqueueBatch(ctx context.Context, items []workqueue.Params) ([]workqueue.EnqueueResult, error) {
	panic("not yet")
}

// Cancel is [workqueue.Queue.Cancel].
func (q *Queue) Cancel(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	panic("not yet")
}

// Requeue is [workqueue.Queue.Requeue].
func (q *Queue) Requeue(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	panic("not yet")
}

// BreakClaim is [workqueue.Queue.BreakClaim].
func (q *Queue) BreakClaim(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	panic("not yet")
}

// Handler wraps a worker's handler, so that its work and the closing writes are
// recorded. The worker needs Hooks too.
func (r *Recorder) Handler(h workqueue.Handler) workqueue.Handler { panic("not yet") }

// Hooks are the worker's, for [Recorder.Handler]. Those of then, which may be zero,
// are called too.
func (r *Recorder) Hooks(then workqueue.Hooks) workqueue.Hooks { panic("not yet") }

// Complete is [workqueue.Claim.CompleteWith], recorded; for handlers that close their
// claim themselves and for claims without a worker.
func (r *Recorder) Complete(ctx context.Context, c *workqueue.Claim, result []byte, ops ...clientv3.Op) error {
	panic("not yet")
}

// Checkpoint is [workqueue.Claim.Checkpoint], recorded.
func (r *Recorder) Checkpoint(ctx context.Context, c *workqueue.Claim, b []byte) error {
	panic("not yet")
}
