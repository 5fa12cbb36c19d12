package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Run is everything that is known of a run.
type Run struct {
	// Root is the root of the queues; "" means Leasekit's default.
	Root string
	// Log is what the clients were told. Take it when every call has returned.
	Log *Log
	// Events is what happened, as the [Witness] saw it, from the beginning.
	Events []Event
	// Final is what was there in the end; nil leaves that out.
	Final *Final
	// Partial tells that not every client was recorded: then changes that no recorded
	// call asked for are accepted.
	Partial bool
}

// Bounds are the run's, since they depend on TTLs, faults and the machine. A zero
// bound leaves its check out.
type Bounds struct {
	// Reclaim is how long after the end of its owner's session a claim may stand,
	// outages and pauses of the queue not counted.
	Reclaim time.Duration
	// Overlap is how long handlers of two claims of one job, or two leaders, may run at
	// once while neither process was paused.
	Overlap time.Duration
	// Return is how long after the end of its context a call may return.
	Return time.Duration
}

// Check replays what the witness saw, and compares it with the rules, with what was
// there in the end, and with what the clients were told:
//
//   - I1: an incarnation of a job has at most one accepted result, from one requeue to
//     the next;
//   - I2: whatever ended a claim was accepted under the token of the last claim;
//   - I3: an id is in exactly one of jobs, done and dead, and no job goes but by
//     retention or by an operator;
//   - I4: a claim is made for a session that is there, taken only from one that is
//     gone, and soon;
//   - I5: the trail, the ordinal of attempts, failures and losses are exact, at every
//     step, and the replay's end is what was read;
//   - I6: handlers of two claims do not overlap;
//   - I7: calls return by their context;
//   - I10: terms of a leader do not overlap, and its writes are of its term;
//   - answers: applied means that it happened, at that revision; refused and not
//     applied that it did not; unknown either;
//   - effects: the caller's own writes of a completion happened with it, once;
//   - leftovers: nothing stays behind a job that is over.
//
// I8 is goleak's, I9 that of [RPCs].
func Check(run Run, b Bounds) Report {
	c := newChecker(run, b)
	if err := c.replay(); err != nil {
		c.fail("transition", jobKey{}, 0, "the root: %v", err)
		return c.report
	}
	c.ledger()
	c.orphans()
	c.answers()
	c.effects()
	c.works()
	c.terms()
	c.returns()
	c.report.run = c.run
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return c.report
}

func newChecker(run Run, b Bounds) *checker {
	c := &checker{run: run, bounds: b}
	c.report.Stats.Transitions, c.report.Stats.Answers = map[string]int{}, map[string]int{}
	return c
}

// replay makes the world.
func (c *checker) replay() error {
	keys, err := keyspace.New(c.run.Root)
	if err != nil {
		return err
	}
	if c.run.Log == nil {
		c.run.Log = &Log{}
	}
	c.index()
	c.world = newReplay(c, keys)
	c.world.run(c.run.Events, c.run.Final)
	return nil
}

// checker is one check under way.
type checker struct {
	run    Run
	bounds Bounds
	world  *replay
	report Report

	ops     map[jobKey][]*Op
	claims  map[claimID][]*Op // closing calls
	outages []span
	pauses  map[string][]span // of processes
	kills   map[string]int64
	// cutShort are the claims whose handler ran when its process was killed.
	cutShort map[claimID]bool
	// withJobs counts the completions that may have enqueued a job along.
	withJobs map[jobKey]int
}

func (c *checker) fail(invariant string, key jobKey, rev int64, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{
		Invariant: invariant, Queue: key.queue, ID: key.id, Revision: rev, Text: fmt.Sprintf(format, args...),
	})
}

// index puts what the clients recorded where it is looked up.
func (c *checker) index() {
	c.ops, c.claims = map[jobKey][]*Op{}, map[claimID][]*Op{}
	c.pauses, c.kills = map[string][]span{}, map[string]int64{}
	for i := range c.run.Log.Ops {
		op := &c.run.Log.Ops[i]
		key := jobKey{op.Queue, op.ID}
		c.ops[key] = append(c.ops[key], op)
		if op.closes() {
			id := claimID{op.Queue, op.ID, op.Token}
			c.claims[id] = append(c.claims[id], op)
		}
		c.report.Stats.Answers[string(op.Verb)+" "+string(op.Result)]++
	}
	for _, m := range c.run.Log.Marks {
		switch m.Kind {
		case Killed:
			c.kills[m.Proc] = m.At
		case Paused:
			c.pauses[m.Proc] = open(c.pauses[m.Proc], m.At)
		case Resumed:
			c.pauses[m.Proc] = shut(c.pauses[m.Proc], m.At)
		case Outage:
			c.outages = open(c.outages, m.At)
		case Restored:
			c.outages = shut(c.outages, m.At)
		}
	}
	c.cutShort = map[claimID]bool{}
	for _, w := range c.run.Log.Works {
		if _, killed := c.kills[w.Proc]; killed && w.End == Never {
			c.cutShort[claimID{w.Queue, w.ID, w.Token}] = true
		}
	}
}

// open begins a span, unless one is open.
func open(spans []span, at int64) []span {
	if n := len(spans); n > 0 && spans[n-1].to == Never {
		return spans
	}
	return append(spans, span{at, Never})
}

// shut ends the span that is open, if one is.
func shut(spans []span, at int64) []span {
	if n := len(spans); n > 0 && spans[n-1].to == Never {
		spans[n-1].to = at
	}
	return spans
}

// closes tells whether a call ends a claim, by its owner.
func (op *Op) closes() bool {
	switch op.Verb {
	case Complete, Fail, Snooze, Release, Close:
		return true
	case Cancel:
		return op.Token != 0
	}
	return false
}

// happened tells whether a call may have had an effect.
func (op *Op) happened() bool { return op.Result == Applied || op.Result == Unknown }

// recorded tells whether a recorded call may have done that to a job.
func (c *checker) recorded(key jobKey, v Verb) bool {
	return slices.ContainsFunc(c.ops[key], func(op *Op) bool { return op.Verb == v && op.happened() })
}

// asked is recorded, and true where not all clients are recorded.
func (c *checker) asked(key jobKey, v Verb) bool { return c.run.Partial || c.recorded(key, v) }

// ledger counts where every incarnation of a job went.
func (c *checker) ledger() {
	s := &c.report.Stats
	replaced := 0
	for key, moves := range c.world.byJob {
		for _, m := range moves {
			switch m.name {
			case moveEnqueue:
				s.Jobs++
				if m.from != nil {
					replaced++
				}
			case moveForeign, moveImport:
				s.Jobs++
			case moveExpire:
				s.Expired++
			case moveDelete:
				s.Deleted++
			}
		}
		switch end := c.world.current(key); {
		case end == nil:
		case end.place == inDead:
			s.Dead++
		case end.place == inJobs:
			s.Live++
		case end.rec != nil && end.rec.Outcome == "cancelled":
			s.Cancelled++
		default:
			s.Done++
		}
	}
	s.Replaced = replaced
	if went := s.Done + s.Dead + s.Cancelled + s.Live + s.Expired + s.Deleted + replaced; went != s.Jobs {
		c.fail("I3", jobKey{}, 0, "%d jobs were enqueued, and %d are accounted for: %+v", s.Jobs, went, *s)
	}
}
