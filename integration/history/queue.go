package history

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// Queue is a queue whose calls are recorded. Methods that are not here are those of
// the embedded queue, and are not recorded.
type Queue struct {
	*workqueue.Queue
	rec    *Recorder
	client string
}

// Queue records the calls of q in the name of client.
func (r *Recorder) Queue(client string, q *workqueue.Queue) *Queue {
	return &Queue{Queue: q, rec: r, client: client}
}

func (q *Queue) begin(ctx context.Context, v Verb, id string) *Call {
	return q.rec.Begin(ctx, Op{Client: q.client, Verb: v, Queue: q.Name(), ID: id})
}

// recorded makes a call about a job that is there, and records it.
func (q *Queue) recorded(ctx context.Context, v Verb, id string, do func() (*workqueue.Job, error)) (*workqueue.Job, error) {
	call := q.begin(ctx, v, id)
	j, err := do()
	call.End(err, fromJob(j))
	return j, err
}

// named gives a job without an id one: a call whose outcome is unknown must name its
// job.
func (q *Queue) named(p workqueue.Params) workqueue.Params {
	if p.ID == "" {
		p.ID = fmt.Sprintf("%s-%s", q.rec.proc, keyspace.NewNonce())
	}
	return p
}

func (q *Queue) beginEnqueue(ctx context.Context, p workqueue.Params) *Call {
	return q.rec.Begin(ctx, Op{Client: q.client, Verb: Enqueue, Queue: q.Name(), ID: p.ID, Retained: p.Dedup == workqueue.UntilRetained})
}

// Enqueue is [workqueue.Queue.Enqueue].
func (q *Queue) Enqueue(ctx context.Context, p workqueue.Params) (*workqueue.Job, error) {
	p = q.named(p)
	call := q.beginEnqueue(ctx, p)
	j, err := q.Queue.Enqueue(ctx, p)
	call.End(err, fromJob(j))
	return j, err
}

// EnqueueBatch is [workqueue.Queue.EnqueueBatch].
func (q *Queue) EnqueueBatch(ctx context.Context, items []workqueue.Params) ([]workqueue.EnqueueResult, error) {
	named := make([]workqueue.Params, len(items))
	calls := make([]*Call, len(items))
	for i, p := range items {
		named[i] = q.named(p)
		calls[i] = q.beginEnqueue(ctx, named[i])
	}
	results, err := q.Queue.EnqueueBatch(ctx, named)
	for i, call := range calls {
		if err != nil {
			call.End(err, nil)
			continue
		}
		call.End(results[i].Err, fromJob(results[i].Job))
	}
	return results, err
}

// Cancel is [workqueue.Queue.Cancel].
func (q *Queue) Cancel(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Cancel, id, func() (*workqueue.Job, error) { return q.Queue.Cancel(ctx, id, by) })
}

// Requeue is [workqueue.Queue.Requeue].
func (q *Queue) Requeue(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Requeue, id, func() (*workqueue.Job, error) { return q.Queue.Requeue(ctx, id, by) })
}

// BreakClaim is [admin.BreakClaim].
func (q *Queue) BreakClaim(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Break, id, func() (*workqueue.Job, error) { return admin.BreakClaim(ctx, q.Queue, id, by) })
}

// Bury is [admin.Bury].
func (q *Queue) Bury(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Bury, id, func() (*workqueue.Job, error) { return admin.Bury(ctx, q.Queue, id, by) })
}

// Edit is [admin.Edit].
func (q *Queue) Edit(ctx context.Context, id string, change func(*workqueue.Params) error, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Edit, id, func() (*workqueue.Job, error) { return admin.Edit(ctx, q.Queue, id, change, by) })
}

// Move is [admin.Move].
func (q *Queue) Move(ctx context.Context, id, to string, by workqueue.By) (*workqueue.Job, error) {
	return q.recorded(ctx, Move, id, func() (*workqueue.Job, error) { return admin.Move(ctx, q.Queue, id, to, by) })
}

// Delete is [admin.Delete].
func (q *Queue) Delete(ctx context.Context, id string, by workqueue.By) (*workqueue.Job, error) {
	call := q.begin(ctx, Delete, id)
	j, err := admin.Delete(ctx, q.Queue, id, by)
	call.End(err, nil) // the job is as it was
	return j, err
}

// Claim is [workqueue.Queue.Claim]. Only a claim that was made is recorded: others
// name no job.
func (q *Queue) Claim(ctx context.Context, s *coord.Session) (*workqueue.Claim, error) {
	called := Now()
	c, err := q.Queue.Claim(ctx, s)
	if err == nil {
		op := claimOp(c.Job(), Claim)
		op.Client, op.Call, op.Return = q.client, called, Now()
		op.Result, op.Revision = Applied, op.Token
		q.rec.Record(op)
	}
	return c, err
}

// fromJob fills in what the answer says about the job.
func fromJob(j *workqueue.Job) func(*Op) {
	return func(op *Op) {
		if j != nil {
			op.Born, op.Revision = j.Born, j.Revision
		}
	}
}
