package history

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/workqueue"
)

// Handler wraps a worker's handler, so that its runs and the closing writes behind
// them are recorded. The worker needs [Recorder.Hooks] too. A handler that closes its
// claim itself does so by [Recorder.Complete], [Recorder.Fail] or
// [Recorder.Release].
func (r *Recorder) Handler(h workqueue.Handler) workqueue.Handler {
	recorded := &handler{rec: r, next: h}
	if k, ok := h.(interface{ Kinds() []string }); ok {
		return &kindedHandler{handler: recorded, kinds: k.Kinds}
	}
	return recorded
}

type handler struct {
	rec  *Recorder
	next workqueue.Handler
}

// kindedHandler stands for a handler that works some kinds only.
type kindedHandler struct {
	*handler
	kinds func() []string
}

// Kinds are those that the handler works.
func (h *kindedHandler) Kinds() []string { return h.kinds() }

// Handle runs the handler. What it returns, or that it panics, begins the worker's
// closing write.
func (h *handler) Handle(ctx context.Context, c *workqueue.Claim) (result []byte, err error) {
	j := c.Job()
	end := h.rec.Work(Work{
		Queue: j.Queue, ID: j.ID, Born: j.Born, Attempt: j.Attempt, Token: int64(j.Token), Session: j.Owner,
	})
	verb := Close
	defer func() {
		end()
		h.rec.beginClosing(j, verb)
	}()
	result, err = h.next.Handle(ctx, c)
	if err == nil {
		verb = Complete
	}
	return result, err
}

// beginClosing notes that the worker is going to close the claim, unless the handler
// has done so.
func (r *Recorder) beginClosing(j *workqueue.Job, v Verb) {
	key := claimID{j.Queue, j.ID, int64(j.Token)}
	r.mu.Lock()
	_, closed := r.closings[key]
	r.mu.Unlock()
	if closed {
		return
	}
	call := r.Begin(context.Background(), claimOp(j, v))
	r.mu.Lock()
	r.closings[key] = call
	r.mu.Unlock()
}

// Hooks are the worker's, for [Recorder.Handler]. Those of then, which may be zero,
// are called too, behind ours.
func (r *Recorder) Hooks(then workqueue.Hooks) workqueue.Hooks {
	return workqueue.Hooks{
		Claimed: func(j *workqueue.Job, took time.Duration) {
			op := claimOp(j, Claim)
			// When it began is not told exactly: this may be a process that slept since.
			op.Return, op.Result, op.Revision = Now(), Applied, op.Token
			r.Record(op)
			if then.Claimed != nil {
				then.Claimed(j, took)
			}
		},
		Missed: func() {
			r.reached.Hit(ClaimRace)
			if then.Missed != nil {
				then.Missed()
			}
		},
		Abandoned: func(j *workqueue.Job, cause error) {
			r.abandoned(j, cause)
			if then.Abandoned != nil {
				then.Abandoned(j, cause)
			}
		},
		Settled: func(j *workqueue.Job, s workqueue.Settlement) {
			r.settled(j, s)
			if then.Settled != nil {
				then.Settled(j, s)
			}
		},
	}
}

// abandoned notes the write that gives up the claim of a deaf handler; nobody tells
// what became of it.
func (r *Recorder) abandoned(j *workqueue.Job, cause error) {
	op := claimOp(j, Close)
	op.Return, op.Result, op.Err = Now(), Unknown, "abandoned: "+cause.Error()
	r.Record(op)
	r.reached.Hit(AbandonedHandler)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.works {
		if w.Queue == j.Queue && w.ID == j.ID && w.Token == int64(j.Token) {
			w.Deaf = true
			r.append(line{Work: w})
		}
	}
}

// settled ends the closing write.
func (r *Recorder) settled(j *workqueue.Job, s workqueue.Settlement) {
	key := claimID{j.Queue, j.ID, int64(j.Token)}
	r.mu.Lock()
	call := r.closings[key]
	delete(r.closings, key)
	r.mu.Unlock()
	if s.Refused {
		r.reached.Hit(LateRefused)
	}
	verb := closingVerbs[s.Outcome]
	if call != nil {
		call.End(s.Err, func(op *Op) { op.Verb = verb })
		return
	}
	// No handler was started, since the payload was gone.
	op := claimOp(j, verb)
	op.Return, op.Err = Now(), "no handler"
	op.Result, op.Why = Judge(s.Err)
	r.Record(op)
}

// closingVerbs are the outcomes of a settlement.
var closingVerbs = map[string]Verb{
	"completed": Complete, "failed": Fail, "snoozed": Snooze, "cancelled": Cancel, "released": Release,
}

func claimOp(j *workqueue.Job, v Verb) Op {
	return Op{
		Client: j.Owner, Verb: v, Queue: j.Queue, ID: j.ID, Born: j.Born, Token: int64(j.Token), Session: j.Owner,
	}
}

// Complete is [workqueue.Claim.CompleteWith], recorded. Ops are puts.
func (r *Recorder) Complete(ctx context.Context, c *workqueue.Claim, result []byte, ops ...clientv3.Op) error {
	op := claimOp(c.Job(), Complete)
	for _, o := range ops {
		if op.Effects == nil {
			op.Effects = map[string]string{}
		}
		op.Effects[string(o.KeyBytes())] = string(o.ValueBytes())
	}
	return r.closeClaim(ctx, op, func() error { return c.CompleteWith(ctx, result, ops...) })
}

// Fail is [workqueue.Claim.Fail], recorded, for errors that say nothing special.
func (r *Recorder) Fail(ctx context.Context, c *workqueue.Claim, cause error) error {
	return r.closeClaim(ctx, claimOp(c.Job(), Fail), func() error { return c.Fail(ctx, cause) })
}

// Release is [workqueue.Claim.Release], recorded.
func (r *Recorder) Release(ctx context.Context, c *workqueue.Claim) error {
	return r.closeClaim(ctx, claimOp(c.Job(), Release), func() error { return c.Release(ctx) })
}

// closeClaim records a closing call that a handler makes itself. Only when nothing
// was written may its worker close the claim too.
func (r *Recorder) closeClaim(ctx context.Context, op Op, call func() error) error {
	key := claimID{op.Queue, op.ID, op.Token}
	r.mu.Lock()
	r.closings[key] = nil
	r.mu.Unlock()
	begun := r.Begin(ctx, op)
	err := call()
	begun.End(err, func(op *Op) {
		if op.Result == Refused && op.Why != Fenced {
			// The claim is open: it is the caller's own ops that did not apply.
			op.Result, op.Why = NotApplied, ""
		}
		if op.Result == NotApplied {
			delete(r.closings, key) // End holds mu
		}
	})
	return err
}

// Checkpoint is [workqueue.Claim.Checkpoint], recorded.
func (r *Recorder) Checkpoint(ctx context.Context, c *workqueue.Claim, b []byte) error {
	call := r.Begin(ctx, claimOp(c.Job(), Checkpoint))
	err := c.Checkpoint(ctx, b)
	call.End(err, nil)
	return err
}

// Commit puts a key under the fence of a term, recorded: a leader's write. Name is the
// election's.
func (r *Recorder) Commit(ctx context.Context, name string, t *election.Term, key, value string) error {
	call := r.Begin(ctx, Op{Client: t.Session(), Verb: Commit, Queue: name, Key: key, Token: int64(t.Token()), Session: t.Session()})
	res, err := t.Commit(ctx, clientv3.OpPut(key, value))
	call.End(err, func(op *Op) {
		if err == nil {
			op.Revision = res.Revision
		}
	})
	return err
}
