package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Violation is one promise that was broken.
type Violation struct {
	// Invariant is I1 to I7 or I10, or transition, answers, effects, leftovers.
	Invariant string
	// Queue and ID name the job, or Queue the election; empty when it is about neither.
	Queue, ID string
	// Revision is where it was seen; 0 when it has none.
	Revision int64
	// Text says what was wrong.
	Text string
}

// String is the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: job %s/%s at revision %d: %s", v.Invariant, v.Queue, v.ID, v.Revision, v.Text)
}

// Stats count what was checked, so that a run that did nothing is noticed.
type Stats struct {
	// Jobs are incarnations; the others say where they went. Expired ones went by the
	// retention, Deleted ones by an operator, Replaced ones by a later enqueue of their
	// id.
	Jobs, Done, Dead, Cancelled, Live, Expired, Deleted, Replaced int
	// Transitions counts by name, such as claim, reclaim, complete, fail.
	Transitions map[string]int
	// Answers counts by verb and result.
	Answers map[string]int
	// Works, Terms and Effects that were compared.
	Works, Terms, Effects int
	// SlowestReclaim is the longest time that an orphan stood, as far as counted.
	SlowestReclaim time.Duration
}

// String is the counts as text of several lines.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "jobs %d: done %d, dead %d, cancelled %d, live %d, expired %d, deleted %d, replaced %d\n",
		s.Jobs, s.Done, s.Dead, s.Cancelled, s.Live, s.Expired, s.Deleted, s.Replaced)
	for _, m := range []struct {
		name   string
		counts map[string]int
	}{{"transitions", s.Transitions}, {"answers", s.Answers}} {
		fmt.Fprintf(&b, "%s:", m.name)
		for _, k := range slices.Sorted(maps.Keys(m.counts)) {
			fmt.Fprintf(&b, " %s=%d", strings.ReplaceAll(k, " ", "-"), m.counts[k])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "works %d, terms %d, effects %d, slowest reclaim %v", s.Works, s.Terms, s.Effects, s.SlowestReclaim)
	return b.String()
}

// Report is the outcome of a check.
type Report struct {
	// Violations are all that were found, by revision.
	Violations []Violation
	// Stats count what was checked.
	Stats Stats

	run Run
}

// maxShown is how many violations an error tells.
const maxShown = 20

// Err is nil when no promise was broken; else it tells the first violations, and the
// story of the first job among them.
func (r Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d violations:", len(r.Violations))
	for _, v := range r.Violations[:min(len(r.Violations), maxShown)] {
		b.WriteString("\n  " + v.String())
	}
	for _, v := range r.Violations {
		if v.ID != "" {
			fmt.Fprintf(&b, "\nthe story of job %s/%s:\n%s", v.Queue, v.ID, r.Story(v.Queue, v.ID))
			break
		}
	}
	return errors.New(b.String())
}

// Story tells everything that is known of the jobs of an id, in order, one line each:
// "etcd" lines are events, when the witness saw them; the others calls and handlers,
// from when they began, in ms since the first.
func (r Report) Story(queue, id string) string {
	type entry struct {
		at   int64
		text string
	}
	var all []entry
	c := newChecker(r.run, Bounds{})
	if err := c.replay(); err != nil {
		return err.Error()
	}
	for _, m := range c.world.byJob[jobKey{queue, id}] {
		all = append(all, entry{m.seen, "etcd: " + m.String()})
	}
	for _, op := range c.ops[jobKey{queue, id}] {
		text := fmt.Sprintf("%s %s: %s token %d: %s %s, revision %d, %s", op.Proc, op.Client, op.Verb, op.Token, op.Result, op.Why, op.Revision, op.Err)
		at := op.Call
		switch {
		case op.Call == 0:
			at, text = op.Return, text+" (known when it returned)"
		case op.Return == Never:
			text += " (never returned)"
		default:
			text += fmt.Sprintf(" (took %v)", time.Duration(op.Return-op.Call))
		}
		all = append(all, entry{at, text})
	}
	for _, w := range c.run.Log.Works {
		if w.Queue == queue && w.ID == id {
			all = append(all, entry{w.Start, fmt.Sprintf("%s %s: handler of attempt %d, token %d, begins", w.Proc, w.Session, w.Attempt, w.Token)})
			if w.End != Never {
				all = append(all, entry{w.End, fmt.Sprintf("%s %s: handler of token %d ends, deaf %t", w.Proc, w.Session, w.Token, w.Deaf)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "  %10.3f  %s\n", float64(e.at-all[0].at)/1e6, e.text)
	}
	return b.String()
}

// String tells what a move did.
func (m *move) String() string {
	show := func(s *standing) string {
		switch {
		case s == nil:
			return "nothing"
		case s.rec == nil:
			return fmt.Sprintf("%s@%d unreadable", s.place, s.rev)
		}
		return fmt.Sprintf("%s@%d {born %s, attempt %d, failures %d, losses %d, owner %q}",
			s.place, s.rev, s.rec.Born, s.rec.Attempt, s.rec.Failures, s.rec.Losses, s.rec.Owner)
	}
	text := fmt.Sprintf("%s at revision %d: %s -> %s", m.name, m.rev, show(m.from), show(m.to))
	if e := m.entry(); e.Outcome != "" {
		text += fmt.Sprintf("; trail ends with attempt %d %s token %d of %s by %s: %s%s", e.Attempt, e.Outcome, e.Token, e.Owner, e.Actor, e.Reason, e.Error)
	}
	return text
}
