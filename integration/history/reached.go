package history

import (
	"maps"
	"math/bits"
	"sync"

	"go.uber.org/zap/zapcore"
)

// Probes that are hit by themselves: by [Reached.Core], from what the libraries log,
// and by [Recorder.Hooks].
const (
	// AmbiguousYes: an answer was lost and the write had been applied; AmbiguousNo: it
	// had not, and its repeat was.
	AmbiguousYes = "ambiguous-yes"
	AmbiguousNo  = "ambiguous-no"
	// ReclaimRace: two wanted the same orphan. ClaimRace: two wanted the same job.
	ReclaimRace = "reclaim-race"
	ClaimRace   = "claim-race"
	// Relist: a mirror listed again, because its watch could not go on.
	Relist = "relist"
	// WatchEnded: a mirror's watch ended or fell silent, and was opened again.
	WatchEnded = "watch-ended"
	// Rewound: etcd's history went back.
	Rewound = "rewound"
	// SessionLost: a session ended that was not closed.
	SessionLost = "session-lost"
	// Unended: a claim that no caller is left for could not be ended at the first try.
	Unended = "unended"
	// AbandonedHandler: a handler ignored the end of its context.
	AbandonedHandler = "abandoned-handler"
	// LateRefused: a closing write came late and was refused.
	LateRefused = "late-refused"
)

// probeOf maps what the libraries log to probes. TestProbesAreLogged holds that each
// message is in their source.
var probeOf = map[string]string{
	"lost answer: the batch was applied":            AmbiguousYes,
	"lost answer: the batch was not applied":        AmbiguousNo,
	"lost the race for an orphan":                   ReclaimRace,
	"list again: the watch's revision is compacted": Relist,
	"watch": WatchEnded,
	"etcd's history went back: a restore from a backup?": Rewound,
	"session over": SessionLost,
	"a claim without a caller cannot be ended yet": Unended,
}

// Reached counts which branches and faults a run came by, by name. The zero value is
// ready. Safe for concurrent use.
type Reached struct {
	mu     sync.Mutex
	counts map[string]int
	tell   func(probe string, n int) // at 1, 2, 4, 8, ... hits
}

// Hit counts a probe. Faults hit "fault:<name>".
func (r *Reached) Hit(probe string) {
	r.mu.Lock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[probe]++
	n, tell := r.counts[probe], r.tell
	r.mu.Unlock()
	if tell != nil && bits.OnesCount(uint(n)) == 1 {
		tell(probe, n)
	}
}

// Counts returns a copy of all counts.
func (r *Reached) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		return map[string]int{}
	}
	return maps.Clone(r.counts)
}

// Core returns a zap core that hits the probes of what the libraries log: give it to
// their loggers, alone or by zapcore.NewTee. It writes nothing.
func (r *Reached) Core() zapcore.Core { return probeCore{r} }

// probeCore is a core that looks at messages only.
type probeCore struct{ r *Reached }

// Enabled is true: some messages are of the debug level.
func (c probeCore) Enabled(zapcore.Level) bool { return true }

// With keeps no fields.
func (c probeCore) With([]zapcore.Field) zapcore.Core { return c }

// Check asks for the messages of probes.
func (c probeCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if _, ok := probeOf[e.Message]; ok {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write hits the probe.
func (c probeCore) Write(e zapcore.Entry, _ []zapcore.Field) error {
	c.r.Hit(probeOf[e.Message])
	return nil
}

// Sync has nothing to do.
func (c probeCore) Sync() error { return nil }
