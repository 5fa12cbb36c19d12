package history

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasekit/leasekit/election"
)

// Recorder writes down what the clients of one process do. The zero value is not
// ready: see [NewRecorder] and [OpenRecorder]. Safe for concurrent use.
type Recorder struct {
	proc    string
	reached Reached

	mu    sync.Mutex
	n     int64
	ops   []*Op
	works []*Work
	terms []*Term
	marks []Mark
	file  *os.File
	err   error
	// closings are the closing writes that a worker is about to make, by claim; its
	// Settled hook ends them. Nil: the handler closes the claim itself.
	closings map[claimID]*Call
}

// claimID names one claim of one job.
type claimID struct {
	queue, id string
	token     int64
}

// NewRecorder returns a recorder that keeps its log in memory. Proc names the
// process: no two recorders of a run may share a name.
func NewRecorder(proc string) *Recorder {
	r := &Recorder{proc: proc, closings: map[claimID]*Call{}}
	r.reached.tell = func(probe string, n int) { r.write(line{Reached: &reach{Proc: proc, Probe: probe, N: n}}) }
	return r
}

// OpenRecorder returns a recorder that appends each record to a file at once too, so
// that a killed process loses its last line at most. Close it.
func OpenRecorder(path, proc string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a record of %s: %w", proc, err)
	}
	r := NewRecorder(proc)
	r.file = f
	return r, nil
}

// Close closes the file; what is recorded later stays in memory. It returns the first
// error that a write had.
func (r *Recorder) Close() error {
	for probe, n := range r.reached.Counts() {
		r.write(line{Reached: &reach{Proc: r.proc, Probe: probe, N: n}})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return r.err
	}
	err := r.file.Close()
	r.file = nil
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("close the record of %s: %w", r.proc, err)
	}
	return r.err
}

// line is one line of a file: exactly one field is set. A later line about the same
// call, work or term replaces the earlier one.
type line struct {
	Op      *Op    `json:"op,omitempty"`
	Work    *Work  `json:"work,omitempty"`
	Term    *Term  `json:"term,omitempty"`
	Mark    *Mark  `json:"mark,omitempty"`
	Reached *reach `json:"reached,omitempty"`
}

// reach is how often a process came by a probe so far.
type reach struct {
	Proc  string `json:"proc"`
	Probe string `json:"probe"`
	N     int    `json:"n"`
}

func (r *Recorder) write(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.append(l)
}

// append is called with mu held.
func (r *Recorder) append(l line) {
	if r.file == nil {
		return
	}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.file.Write(append(b, '\n')) // one write, so lines of several processes do not mix
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("append to the record of %s: %w", r.proc, err)
	}
}

// Call is one call under way.
type Call struct {
	r     *Recorder
	op    *Op
	stop  func() bool
	ended atomic.Int64 // when the context ended
}

// Begin records that a call begins, with ctx, whose end is when it has to return.
// Fill Verb, Queue, ID, and what else is known; Proc, N, Call and Deadline are set
// here.
func (r *Recorder) Begin(ctx context.Context, op Op) *Call {
	c := &Call{r: r, op: &op}
	op.Proc, op.Result, op.Return = r.proc, "", 0
	op.Call = Now()
	if d, ok := ctx.Deadline(); ok {
		op.Deadline = op.Call + int64(time.Until(d))
	}
	c.stop = context.AfterFunc(ctx, func() { c.ended.Store(Now()) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	op.N = r.n
	r.ops = append(r.ops, c.op)
	r.append(line{Op: c.op})
	return c
}

// End records the call's return, with the result that [Judge] finds in err. Fill,
// which may be nil, adds what is known now, such as Revision, or another Result.
func (c *Call) End(err error, fill func(*Op)) {
	now := Now()
	c.stop()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.op.Return = now
	if at := c.ended.Load(); at != 0 && (c.op.Deadline == 0 || at < c.op.Deadline) {
		c.op.Deadline = at
	}
	c.op.Result, c.op.Why = Judge(err)
	if err != nil {
		c.op.Err = err.Error()
	}
	if fill != nil {
		fill(c.op)
	}
	c.r.append(line{Op: c.op})
}

// Record writes down a call that is over: op has its Call, Return and Result. Call 0
// means that it is not known when it began.
func (r *Recorder) Record(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	op.Proc, op.N = r.proc, r.n
	r.ops = append(r.ops, &op)
	r.append(line{Op: &op})
}

// Work records that a handler starts; the function that it returns, that it ended.
// Proc, N, Start and End are set here.
func (r *Recorder) Work(w Work) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	w.Proc, w.N, w.Start, w.End = r.proc, r.n, Now(), 0
	r.works = append(r.works, &w)
	r.append(line{Work: &w})
	return func() {
		now := Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		w.End = now
		r.append(line{Work: &w})
	}
}

// Mark records an intervention, now. Mark Paused and Killed before the signal is sent,
// Resumed after.
func (r *Recorder) Mark(kind MarkKind, proc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := Mark{Kind: kind, Proc: proc, At: Now()}
	r.marks = append(r.marks, m)
	r.append(line{Mark: &m})
}

// Term wraps the function of [election.Elector.Run], so that its terms are recorded.
func (r *Recorder) Term(name string, fn func(context.Context, *election.Term) error) func(context.Context, *election.Term) error {
	return func(ctx context.Context, t *election.Term) error {
		defer r.term(Term{Election: name, Session: t.Session(), Token: int64(t.Token())})()
		return fn(ctx, t)
	}
}

func (r *Recorder) term(t Term) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	t.Proc, t.N, t.Start, t.End = r.proc, r.n, Now(), 0
	r.terms = append(r.terms, &t)
	r.append(line{Term: &t})
	return func() {
		now := Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		t.End = now
		r.append(line{Term: &t})
	}
}

// Reached is the set of probes of this process; its hits are part of the log.
func (r *Recorder) Reached() *Reached { return &r.reached }

// Log returns what was recorded so far. Calls that have not returned are unknown.
func (r *Recorder) Log() *Log {
	counts := r.reached.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &Log{Marks: append([]Mark(nil), r.marks...), Reached: counts}
	for _, op := range r.ops {
		l.Ops = append(l.Ops, *op)
	}
	for _, w := range r.works {
		l.Works = append(l.Works, *w)
	}
	for _, t := range r.terms {
		l.Terms = append(l.Terms, *t)
	}
	l.close()
	return l
}
