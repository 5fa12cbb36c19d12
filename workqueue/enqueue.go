package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/queue"
)

// Dedup says what counts as existing when a job is enqueued under an ID. The zero
// value lets an ID be enqueued again once its job is done, dead or cancelled.
type Dedup int

const (
	untilFinished Dedup = iota
	// UntilRetained refuses the ID as long as anything of its job is kept.
	UntilRetained
)

// Params describes a job to enqueue. The zero value is a job without a payload.
type Params struct {
	// ID names the job: at most one live job of a queue has it. "" makes one up.
	ID string
	// Kind selects the handler of a [Mux]; it may be empty.
	Kind string
	// Payload is handed to the handler byte for byte.
	Payload []byte
	// Priority: higher goes first; 0 is normal.
	Priority int
	// RunAt is when the job may be claimed, by the workers' clocks; zero is now.
	RunAt time.Time
	// Timeout bounds each attempt; 0 leaves it to the worker.
	Timeout time.Duration
	// MaxAttempts is how many failures bury the job; 0 means 5. MaxLosses is how
	// many counted losses do; 0 means 3.
	MaxAttempts, MaxLosses int
	// AtMostOnce starts the job once at most: whatever ends its attempt, it goes to
	// done or dead.
	AtMostOnce bool
	// Dedup says what counts as existing.
	Dedup Dedup
	// Labels are free, for people and filters. Trace carries trace context, such as
	// traceparent.
	Labels, Trace map[string]string
}

// description is what the record is made of.
func (p Params) description() job.Description {
	return job.Description{
		ID: p.ID, Kind: p.Kind, Payload: p.Payload, Priority: p.Priority, RunAt: p.RunAt, Timeout: p.Timeout,
		MaxAttempts: p.MaxAttempts, MaxLosses: p.MaxLosses, AtMostOnce: p.AtMostOnce, Labels: p.Labels, Trace: p.Trace,
	}
}

// EnqueueResult is the outcome of one item of a batch.
type EnqueueResult struct {
	// Job is the new job, nil when Err is not.
	Job *Job
	// Err is as [Queue.Enqueue] returns it.
	Err error
}

// Enqueue adds one job. It blocks until the outcome is known or ctx ends:
//
//   - nil: the job exists, exactly once, however often an answer was lost;
//   - [*ExistsError], which matches [ErrExists]: a job of that ID exists;
//   - [ErrBacklogFull], or a [coord.InputError]: nothing was written;
//   - [coord.ErrUnknown]: ctx ended while the request was under way. With an ID of
//     your own it is safe to call again.
func (q *Queue) Enqueue(ctx context.Context, p Params) (*Job, error) {
	e, err := q.begin(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", q.core.Name(), err)
	}
	return e.finish(ctx)
}

const (
	// batchInFlight bounds how many items of a batch are handed over at once,
	// batchBytes how many bytes of payload, one item apart.
	batchInFlight = 4096
	batchBytes    = 16 << 20
)

// EnqueueBatch adds jobs, any number of them, in order: results[i] belongs to
// items[i], and each succeeds or fails alone. The error is not nil only when
// nothing was tried. Jobs of one batch keep their order in the queue as far as
// they share a priority.
func (q *Queue) EnqueueBatch(ctx context.Context, items []Params) ([]EnqueueResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("enqueue batch to %s: %w", q.core.Name(), err)
	}
	if err := q.core.Backlog.Check(q.core); err != nil {
		return nil, fmt.Errorf("enqueue batch to %s: %w", q.core.Name(), err)
	}
	results := make([]EnqueueResult, len(items))
	for start, end := 0, 0; start < len(items); start = end {
		var begun []*enqueueing
		for bytes := 0; end < len(items) && len(begun) < batchInFlight && bytes < batchBytes; end++ {
			e, err := q.begin(ctx, items[end])
			if err != nil {
				results[end].Err = fmt.Errorf("enqueue to %s: %w", q.core.Name(), err)
			}
			begun = append(begun, e)
			bytes += len(items[end].Payload)
		}
		for i, e := range begun {
			if e != nil {
				results[start+i].Job, results[start+i].Err = e.finish(ctx)
			}
		}
	}
	return results, nil
}

// EnqueueOps returns the compares and writes that enqueue a job, for the caller's
// own Txn, or as ops of [Claim.CompleteWith], which adds the compares itself: the
// job is created together with everything else, or not at all. It does not talk to
// etcd. An ID that was used before and is still retained makes the compares fail.
func (q *Queue) EnqueueOps(p Params) (id string, cmps []clientv3.Cmp, ops []clientv3.Op, err error) {
	e, err := q.prepare(p)
	if err != nil {
		return "", nil, nil, fmt.Errorf("enqueue to %s: %w", q.core.Name(), err)
	}
	txn, err := q.core.Txns.Enqueue(e.record, p.Payload, job.EnqueueSeen{})
	if err != nil {
		return "", nil, nil, fmt.Errorf("enqueue to %s: %w", q.core.Name(), err)
	}
	return e.record.ID, txn.If, txn.Then, nil
}

// enqueueing is one enqueue under way.
type enqueueing struct {
	q       *Queue
	p       Params
	record  *job.Record
	pending *lane.Pending
}

func (q *Queue) prepare(p Params) (*enqueueing, error) {
	if err := p.validate(q.core.MaxPayload); err != nil {
		return nil, err
	}
	return &enqueueing{q: q, p: p, record: job.New(p.description(), q.core.Seq.Add(1), time.Now())}, nil
}

// begin hands the first try over, unless ctx has ended already.
func (q *Queue) begin(ctx context.Context, p Params) (*enqueueing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := q.core.Backlog.Check(q.core); err != nil {
		return nil, err
	}
	e, err := q.prepare(p)
	if err != nil {
		return nil, err
	}
	txn, err := q.core.Txns.Enqueue(e.record, p.Payload, job.EnqueueSeen{Drawn: p.ID == ""})
	if err != nil {
		return nil, err
	}
	e.pending = q.core.Committer.Go(txn)
	return e, nil
}

// finish waits for the outcome.
func (e *enqueueing) finish(ctx context.Context) (*Job, error) {
	job, err := e.settle(ctx)
	if err != nil {
		return nil, fmt.Errorf("enqueue job %s to %s: %w", e.record.ID, e.q.core.Name(), err)
	}
	return job, nil
}

// settle tries again with what it read when the ID was used before.
func (e *enqueueing) settle(ctx context.Context) (*Job, error) {
	for range queue.MaxTries {
		r, err := e.pending.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if r.Succeeded {
			job := view(e.record, e.q.core.Name(), job.InJobs, r.Revision, time.Now(), queue.Nobody)
			job.Payload, job.PayloadSize = e.p.Payload, len(e.p.Payload)
			return job, nil
		}
		seen, err := e.judge(ctx, r.Get(0), r.Get(1), r.Get(2))
		if err != nil {
			return nil, err
		}
		txn, err := e.q.core.Txns.Enqueue(e.record, e.p.Payload, seen)
		if err != nil {
			return nil, err
		}
		e.pending = e.q.core.Committer.Go(txn)
	}
	return nil, fmt.Errorf("%w: others keep using the id", ErrConflict)
}

// judge looks at what is there under the ID: a job in the way, or the remains of
// one that is over, whose trail is taken up.
func (e *enqueueing) judge(ctx context.Context, live, done, dead *mvccpb.KeyValue) (job.EnqueueSeen, error) {
	var seen job.EnqueueSeen
	var err error
	for _, old := range []struct {
		kv    *mvccpb.KeyValue
		where job.Place
	}{{live, job.InJobs}, {dead, job.InDead}, {done, job.InDone}} {
		if old.kv == nil {
			continue
		}
		r, derr := e.q.core.Txns.Decode(old.where, old.kv)
		if old.where == job.InJobs || e.p.Dedup == UntilRetained {
			if derr != nil {
				return seen, fmt.Errorf("%w, but it cannot be read: %w", ErrExists, derr)
			}
			return seen, &ExistsError{Job: view(r, e.q.core.Name(), old.where, old.kv.ModRevision, time.Now(), e.q.core.PresumedAlive(ctx))}
		}
		switch old.where {
		case job.InDone:
			seen.Done = old.kv.ModRevision
		case job.InDead:
			seen.Dead = old.kv.ModRevision
		}
		if derr == nil {
			e.record.Attempt, e.record.Attempts, e.record.LogTotal = r.Attempt, r.Attempts, r.LogTotal
		}
		err = errors.Join(err, derr)
	}
	if err != nil {
		return seen, fmt.Errorf("take up the trail of the earlier job: %w", err)
	}
	e.record.Nonce = keyspace.NewNonce() //mutant:enqueue-again-nonce
	return seen, nil
}
