package history

import "time"

// Run is everything that is known of a run.
type Run struct {
	// Root is the root of the queues; "" means Leasekit's default.
	Root string
	// Log is what the clients were told.
	Log *Log
	// Events is what happened, as the [Witness] saw it.
	Events []Event
	// Final is what was there in the end; nil leaves that out.
	Final *Final
	// Partial tells that not every client was recorded: then changes that nobody
	// recorded asked for are accepted.
	Partial bool
}

// Bounds are the run's, since they depend on TTLs, faults and the machine. A zero
// bound leaves its check out.
type Bounds struct {
	// Reclaim is how long after the end of its owner's session a claim may stand,
	// outages not counted.
	Reclaim time.Duration
	// Overlap is how long handlers of two claims of one job may run at once while
	// neither process was paused.
	Overlap time.Duration
	// Return is how long after the end of its context a call may return.
	Return time.Duration
}

// Violation is one promise that was broken.
type Violation struct {
	// Invariant is I1 to I10, or answers, effects, transition.
	Invariant string
	Queue, ID string
	// Revision is where it was seen; 0 when it has none.
	Revision int64
	// Text says what was wrong.
	Text string
}

// Stats count what was checked, so that a run that did nothing is noticed.
type Stats struct {
	// Jobs are incarnations. Expired ones went by the retention.
	Jobs, Done, Dead, Cancelled, Live, Expired, Deleted int
	// Transitions by name, such as claim, reclaim, complete, fail.
	Transitions map[string]int
	// Answers by verb and result.
	Answers map[string]int
	// Works and Terms that were compared.
	Works, Terms int
	// SlowestReclaim is the longest time that an orphan stood.
	SlowestReclaim time.Duration
}

// Report is the outcome of a check.
type Report struct {
	Violations []Violation
	Stats      Stats
}

// Err is nil when no promise was broken; else it tells the first violations, with the
// story of the first job.
func (r Report) Err() error { panic("not yet") }

// Check replays what the witness saw, and compares it with the rules and with what
// the clients were told.
func Check(run Run, b Bounds) Report { panic("not yet") }

// LinearConfig configures [CheckLinearizable].
type LinearConfig struct {
	// Timeout bounds the whole search; 0 means a minute.
	Timeout time.Duration
	// Dir is where visualisations of violations go; "" means the system's directory
	// for temporary files.
	Dir string
}

// CheckLinearizable asks porcupine, job by job, whether the answers can be explained
// by one order of the calls that respects real time. Calls whose outcome is unknown
// may have happened at any later time, or never. The error names the jobs that cannot
// be explained, and the file with a picture of each; or says that the search took too
// long.
func CheckLinearizable(run Run, cfg LinearConfig) error { panic("not yet") }
