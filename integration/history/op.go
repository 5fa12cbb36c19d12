package history

import "math"

// Never is the return time of a call that was never answered.
const Never int64 = math.MaxInt64

// Verb names what a client wanted.
type Verb string

// The verbs of a queue's clients. Close is a closing write of which it is not known
// what it wanted to be, because its process ended first.
const (
	Enqueue    Verb = "enqueue"
	Claim      Verb = "claim"
	Complete   Verb = "complete"
	Fail       Verb = "fail"
	Snooze     Verb = "snooze"
	Release    Verb = "release"
	Close      Verb = "close"
	Checkpoint Verb = "checkpoint"
	Cancel     Verb = "cancel"
	Requeue    Verb = "requeue"
	Break      Verb = "break"
	Bury       Verb = "bury"
	Edit       Verb = "edit"
	Move       Verb = "move"   // to another queue; Queue is the one that it leaves
	Delete     Verb = "delete" // of a job in whatever place
	Import     Verb = "import" // a job with its past, into whatever place
	Commit     Verb = "commit" // a leader's write, under the fence of its term
)

// Result is what a client was told.
type Result string

// The results. Unknown is also what a call has that never returned. NotApplied is an
// error that promises that nothing was written, such as an invalid input; Refused
// one that says something about the job: see Op.Why.
const (
	Applied    Result = "applied"
	Refused    Result = "refused"
	NotApplied Result = "not applied"
	Unknown    Result = "unknown"
)

// Why says in a word what a refusal said.
type Why string

// The refusals.
const (
	Fenced        Why = "fenced"         // the claim is not current
	Exists        Why = "exists"         // a job of that id exists
	NotFound      Why = "not found"      // no job of that id exists
	NotApplicable Why = "not applicable" // the job is in no state for that
	Conflict      Why = "conflict"       // it changed meanwhile
)

// Op is one call of one client.
type Op struct {
	// Proc is the process that called, Client the caller within it.
	Proc   string `json:"proc,omitempty"`
	Client string `json:"client,omitempty"`
	// N numbers the calls of a process.
	N int64 `json:"n"`

	Verb  Verb   `json:"verb"`
	Queue string `json:"queue,omitempty"`
	ID    string `json:"id,omitempty"`
	// Born tells the job from an earlier one of its ID, where it is known.
	Born string `json:"born,omitempty"`
	// Token is the claim's: the one gained by a claim, the one that others prove. For
	// Commit it is the term's. 0 where there is none.
	Token int64 `json:"token,omitempty"`
	// Session is the owner's, where there is one.
	Session string `json:"session,omitempty"`
	// Key is what a Commit puts.
	Key string `json:"key,omitempty"`
	// Retained tells that a finished job that is kept counts as existing for an
	// enqueue.
	Retained bool `json:"retained,omitempty"`
	// Effects are the caller's own writes of a Complete: key to value.
	Effects map[string]string `json:"effects,omitempty"`

	Result Result `json:"result,omitempty"`
	// Revision is the one at which it was applied, where the client is told.
	Revision int64 `json:"rev,omitempty"`
	Why      Why   `json:"why,omitempty"`
	// Err is the error's text, for people.
	Err string `json:"err,omitempty"`

	// Call and Return are readings of [Now]. Call 0 means that it is not known when
	// the call began.
	Call   int64 `json:"call"`
	Return int64 `json:"ret,omitempty"`
	// Deadline is when the call's context ends by itself; 0 is never.
	Deadline int64 `json:"deadline,omitempty"`
}

// Work is one run of a handler.
type Work struct {
	Proc    string `json:"proc,omitempty"`
	N       int64  `json:"n"`
	Queue   string `json:"queue"`
	ID      string `json:"id"`
	Born    string `json:"born"`
	Attempt int    `json:"attempt"`
	Token   int64  `json:"token"`
	Session string `json:"session"`
	// Start and End are readings of [Now]. End is Never when it was not recorded, such
	// as that of a process that was killed.
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
	// Deaf handlers ignore the end of their context, so they may overlap others.
	Deaf bool `json:"deaf,omitempty"`
}

// Term is one leadership as the leader saw it: from Run's call of its function until
// that returned.
type Term struct {
	Proc     string `json:"proc,omitempty"`
	N        int64  `json:"n"`
	Election string `json:"election"`
	Session  string `json:"session"`
	Token    int64  `json:"token"`
	Start    int64  `json:"start"`
	End      int64  `json:"end,omitempty"`
	// Deaf terms ignore the end of their context.
	Deaf bool `json:"deaf,omitempty"`
}

// MarkKind says what was done to a process, or to all.
type MarkKind string

// The marks. Outage and Restored frame a time in which no reclaim can be expected,
// because etcd, or every worker, was away.
const (
	Killed   MarkKind = "killed"
	Paused   MarkKind = "paused"
	Resumed  MarkKind = "resumed"
	Outage   MarkKind = "outage"
	Restored MarkKind = "restored"
)

// Mark is an intervention by the test.
type Mark struct {
	Kind MarkKind `json:"kind"`
	// Proc is the process that it was done to; "" for Outage and Restored.
	Proc string `json:"proc,omitempty"`
	At   int64  `json:"at"`
}
