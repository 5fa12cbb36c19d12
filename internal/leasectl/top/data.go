// Package top is the screen of leasectl top: what it knows, what keys do to it, and how it is drawn. It asks nothing of
// etcd: what it shows comes in messages, and what it does goes through a [Cluster].
package top

import (
	"context"
	"time"
)

// Look is what was read of etcd at one time.
type Look struct {
	At       time.Time // when it was complete
	Revision int64     // of the store, when it began
	Queues   []Queue   // by name
	Workers  []Worker  // by name
	Problems []Problem
	Notes    []string // what could not be seen
}

// Queue is what is in a queue.
type Queue struct {
	Name     string
	Shell    string // its name, as it can be typed into a shell
	Revision int64  // of its config, to guard a change with
	Paused   bool
	PausedAt time.Time
	PausedBy string

	Ready, Scheduled, Retry, Claimed, Orphan, Dead int

	Oldest            time.Time // when the oldest ready job was enqueued; zero without one
	Busy, Concurrency int       // of all its workers
	Rate              float64   // done per second, over the last minutes, as far as that is kept
}

// Worker is a session that serves queues or owns jobs.
type Worker struct {
	Name        string
	Session     string
	Lost        bool // it is gone, and owns jobs
	Queues      []string
	Busy        int
	Concurrency int
	TTLLeft     time.Duration
}

// Problem is what somebody should look at, and the command that helps.
type Problem struct{ Code, Message, Run string }

// Event is something that happened.
type Event struct {
	Revision  int64
	Time      time.Time // zero where nobody noted one
	Type      string
	Queue, ID string // of a job
	Kind      string
	About     string // what it happened to, for people
	Session   string
	Actor     string
	Token     string
	Detail    string
}

// Job is a job in a list, or the one that a worker runs.
type Job struct {
	Queue, ID, Kind, State string
	Attempt                string
	Owner                  string
	Enqueued, Claimed      time.Time
	Error                  string
}

// Listing is the first jobs that a filter selects.
type Listing struct {
	Jobs []Job
	More bool // there are others
	At   time.Time
	Took time.Duration
}

// Found is a set of jobs that can be acted on exactly as it was found.
type Found struct {
	Count int
	About string // some of them
	// Retry acts on exactly those, each guarded by the revision that it was found at, and says what became of them.
	Retry func(context.Context) (string, error)
}

// Cluster is what the screen can ask for when somebody wants it. It is called from other goroutines than the screen's,
// several at once. Each call is bounded by itself, and ends soon after its context.
type Cluster interface {
	// Jobs lists jobs of a queue; filter is in the filter language.
	Jobs(ctx context.Context, queue, filter string) (Listing, error)
	// Check returns why a filter cannot be used. It asks nothing of etcd.
	Check(queue, filter string) error
	// SetPaused pauses or resumes a queue whose config is still at that revision.
	SetPaused(ctx context.Context, queue string, paused bool, rev int64) error
	// FindDead lists the dead jobs of a queue.
	FindDead(ctx context.Context, queue string) (Found, error)
	// Explain is an error in one line, with the way out.
	Explain(error) string
}

// News is what has become known since the last one, and how the watching goes.
type News struct {
	Now     time.Time
	Look    *Look
	Events  []Event        // oldest first; the last ones when there were many
	Done    map[string]int // jobs that were done, by queue
	Running map[string]Job // by session, its longest running job; nil: as before
	Rev     int64          // the newest revision that was seen, 0: as before
	Gap     bool           // some of what happened was not seen
	Blind   string         // why etcd cannot be looked at now; empty when it can
	Unseen  string         // why nothing is watched now; empty when it is
}
