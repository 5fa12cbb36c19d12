package history

import "go.uber.org/zap/zapcore"

// Probes that [Reached.Core] hits by itself, from what the libraries log.
const (
	// AmbiguousYes: an answer was lost and the write had been applied; AmbiguousNo: it
	// had not, and was repeated.
	AmbiguousYes = "ambiguous-yes"
	AmbiguousNo  = "ambiguous-no"
	// ReclaimRace: two wanted the same orphan.
	ReclaimRace = "reclaim-race"
	// Relist: a mirror had to list again, because its watch could not go on.
	Relist = "relist"
	// Rewound: etcd's history went back.
	Rewound = "rewound"
)

// Reached counts which branches and faults a run came by, by name. The zero value is
// ready. Safe for concurrent use.
type Reached struct{}

// Hit counts a probe. Faults hit "fault:<name>".
func (r *Reached) Hit(probe string) { panic("not yet") }

// Core returns a zap core that hits the probes of what the libraries log: give it to
// their loggers, alone or by zapcore.NewTee.
func (r *Reached) Core() zapcore.Core { panic("not yet") }

// Counts returns a copy of all counts.
func (r *Reached) Counts() map[string]int { panic("not yet") }

// Missing returns those of the wanted probes that were not hit, in order.
func (l *Log) Missing(wanted ...string) []string { panic("not yet") }
