package execjob

import "fmt"

// Verdict says what the end of a child means for its job.
type Verdict int

// The verdicts. Retry is the zero value: an end that nobody explained is a failure like any other.
const (
	Retry     Verdict = iota // failed: try again with the queue's backoff
	RetrySoon                // failed, and the child says that it will pass soon (exit 75)
	Dead                     // failed, and no repeat can help (exit 64, 65, 78, or a result that cannot be stored)
	Complete                 // done (exit 0)
)

// String returns the verdict's name as it appears in messages.
func (v Verdict) String() string {
	switch v {
	case Complete:
		return "complete"
	case RetrySoon:
		return "retry soon"
	case Dead:
		return "dead"
	default:
		return "retry"
	}
}

// Exit codes of sysexits.h that mean more than "failed".
const (
	exitUsage    = 64
	exitDataErr  = 65
	exitTempFail = 75
	exitConfig   = 78
)

// verdictOf maps the exit code of a child that ended by itself.
func verdictOf(code int) Verdict {
	switch code {
	case 0:
		return Complete
	case exitTempFail:
		return RetrySoon
	case exitUsage, exitDataErr, exitConfig:
		return Dead
	default:
		return Retry
	}
}

// Outcome is how one attempt ended.
type Outcome struct {
	Verdict Verdict
	Result  []byte // for Complete; never nil then
	Err     error  // nil exactly for Complete; an *ExitError when the child ran and ended badly

	// Cause is why the child was told to stop: context.Cause of Run's context, nil when it ended by itself. A child
	// that was told to stop and still ended with exit 0 is Complete: the fence decides whether that counts.
	Cause error
}

// ExitError is the bad end of a child.
type ExitError struct {
	Code   int    // exit code; -1 when a signal ended it
	Signal string // such as "SIGKILL"; empty when it exited by itself
	Stderr string // its last lines on stderr, at most 20 and 1 KiB; valid UTF-8
}

// Error says how the child ended and, when there is any, what it said last.
func (e *ExitError) Error() string {
	end := fmt.Sprintf("exit %d", e.Code)
	if e.Signal != "" {
		end = "killed by " + e.Signal
	}
	if e.Stderr == "" {
		return end
	}
	return end + ": " + e.Stderr
}

// judge turns a child's end into an outcome, without its result.
func judge(end ending, stderr string) Outcome {
	if end.signal != 0 {
		return Outcome{Verdict: Retry, Err: &ExitError{Code: -1, Signal: signalName(end.signal), Stderr: stderr}}
	}
	out := Outcome{Verdict: verdictOf(end.code)}
	if out.Verdict != Complete {
		out.Err = &ExitError{Code: end.code, Stderr: stderr}
	}
	return out
}
