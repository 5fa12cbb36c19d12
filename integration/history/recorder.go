package history

import (
	"context"

	"github.com/leasekit/leasekit/election"
)

// Recorder writes down what clients of one process do. The zero value is not ready:
// see [NewRecorder] and [OpenRecorder]. Safe for concurrent use.
type Recorder struct {
	proc string
}

// NewRecorder returns a recorder that keeps its log in memory. Proc names the
// process.
func NewRecorder(proc string) *Recorder { return &Recorder{proc: proc} }

// OpenRecorder returns a recorder that keeps its log in memory and appends each
// record to a file at once, so that nothing but the last line is lost with the
// process. Close it.
func OpenRecorder(path, proc string) (*Recorder, error) { panic("not yet") }

// Close closes the file. What is recorded later is lost.
func (r *Recorder) Close() error { panic("not yet") }

// Log returns what was recorded so far.
func (r *Recorder) Log() *Log { panic("not yet") }

// Call is one call under way.
type Call struct{}

// Begin records that a call begins. Its deadline is that of ctx. Fill Verb, Queue,
// ID, and what else is known; Proc, N, Call and Deadline are set here.
func (r *Recorder) Begin(ctx context.Context, op Op) *Call { panic("not yet") }

// End records the call's return. The result is judged from err: see [Judge]. Fill,
// which may be nil, adds what is known now, such as Revision.
func (c *Call) End(err error, fill func(*Op)) { panic("not yet") }

// Record writes down a call that is over: op has its Call, Return and Result. Call 0
// means that it is not known when it began.
func (r *Recorder) Record(op Op) { panic("not yet") }

// Work records that a handler starts; the function that it returns, that it ended.
func (r *Recorder) Work(w Work) (end func()) { panic("not yet") }

// Mark records an intervention, now.
func (r *Recorder) Mark(kind MarkKind, proc string) { panic("not yet") }

// Term wraps the function of [election.Elector.Run], so that its terms are recorded.
func (r *Recorder) Term(name string, fn func(context.Context, *election.Term) error) func(context.Context, *election.Term) error {
	panic("not yet")
}

// Reached is the set of probes of this process; its hits are part of the log.
func (r *Recorder) Reached() *Reached { panic("not yet") }

// Judge turns an error of the libraries into a result.
func Judge(err error) (Result, Why) { panic("not yet") }

// Log is what all clients recorded.
type Log struct {
	Ops   []Op
	Works []Work
	Terms []Term
	Marks []Mark
	// Reached counts the hits of each probe.
	Reached map[string]int
}

// ReadLog merges the files of several processes. A last line that was cut short, by
// the end of its process, is left out; any other that cannot be read is an error.
func ReadLog(paths ...string) (*Log, error) { panic("not yet") }

// Merge adds the records of others, and returns l.
func (l *Log) Merge(others ...*Log) *Log { panic("not yet") }
