package history

import (
	"fmt"

	"github.com/leasekit/leasekit/workqueue"
)

// The names of moves. A reclaim that leads to no claim is a loss.
const (
	moveEnqueue  = "enqueue"
	moveClaim    = "claim"
	moveReclaim  = "reclaim"
	moveLoss     = "loss"
	moveComplete = "complete"
	moveFail     = "fail"
	moveSnooze   = "snooze"
	moveRelease  = "release"
	moveBreak    = "break"
	moveCancel   = "cancel"
	moveRequeue  = "requeue"
	moveBury     = "bury"
	moveForeign  = "foreign" // a record that nobody can read appears
	moveExpire   = "expire"
	moveDelete   = "delete"
	moveEdit     = "edit"
	moveLeave    = "leave"  // for another queue
	moveArrive   = "arrive" // from another queue
	moveImport   = "import"
	moveSalvage  = "salvage" // what nobody could read is made anew
	moveIllegal  = "illegal"
)

// endings names the moves out of a claim by what they leave in the trail.
var endings = map[string]string{
	"completed": moveComplete, "failed": moveFail, "lost": moveLoss, "released": moveRelease, "snoozed": moveSnooze,
	"cancelled": moveCancel, "broken": moveBreak, "edited": moveEdit,
}

// judge names a move, and holds it to the rules of its kind.
func (r *replay) judge(m *move) {
	from, to := m.from, m.to
	switch {
	case to == nil:
		r.judgeRemoval(m)
	case to.rec == nil || from != nil && from.rec == nil:
		r.judgeUnreadable(m)
	case from == nil || from.place != inJobs && to.place == inJobs && from.rec.Born != to.rec.Born:
		r.judgeEnqueue(m)
	case from.rec.Born != to.rec.Born:
		r.illegal(m, "another job takes its place: born %s after %s", to.rec.Born, from.rec.Born)
	case from.place != inJobs:
		r.judgeRequeue(m)
	case from.claimed():
		r.judgeEnding(m)
	default:
		r.judgeOpen(m)
	}
	r.check.report.Stats.Transitions[m.name]++
}

func (r *replay) illegal(m *move, format string, args ...any) {
	m.name = moveIllegal
	r.check.fail("transition", m.key, m.rev, format, args...)
}

// want reports a broken rule.
func (r *replay) want(ok bool, invariant string, m *move, format string, args ...any) {
	if !ok {
		r.check.fail(invariant, m.key, m.rev, "%s: %s", m.name, fmt.Sprintf(format, args...))
	}
}

// judgeRemoval: only the retention, or an operator, takes a job away.
func (r *replay) judgeRemoval(m *move) {
	if m.target != nil {
		m.name = moveLeave
		return
	}
	m.name = moveDelete
	if m.from.place == inDone && m.from.lease != 0 {
		m.name = moveExpire
		return
	}
	asked := r.check.asked(m.key, Delete) || m.from.rec == nil
	r.want(asked, "I3", m, "the job is lost: its record in %s was deleted, and nobody asked for that", m.from.place)
}

// judgeUnreadable: what nobody can read has no rules, but a job does not become so.
func (r *replay) judgeUnreadable(m *move) {
	switch {
	case m.from == nil:
		m.name = moveForeign
		return
	case m.from.rec == nil:
		m.name = moveSalvage
		return
	}
	m.name = moveEdit
	asked := r.check.asked(m.key, Edit)
	r.want(asked, "I3", m, "the record became unreadable")
}

func (r *replay) judgeEnqueue(m *move) {
	rec := m.to.rec
	switch {
	case m.source != nil:
		r.judgeArrival(m)
		return
	case (rec.LogTotal > 0 || m.to.place != inJobs) && r.check.recorded(m.key, Import):
		m.name = moveImport
		return
	}
	m.name = moveEnqueue
	if m.to.place != inJobs {
		r.illegal(m, "a job appears in %s", m.to.place)
		return
	}
	r.want(!rec.claimed(), "transition", m, "it begins with an owner")
	r.want(rec.Failures == 0 && rec.Losses == 0, "I5", m, "it begins with %d failures and %d losses", rec.Failures, rec.Losses)
	if m.from == nil {
		r.want(rec.Attempt == 0 && rec.LogTotal == 0 && len(rec.Attempts) == 0, "I5", m, "it begins with a trail")
		return
	}
	old := m.from.rec
	r.want(rec.Attempt == old.Attempt && sameTrail(old, rec), "I5", m, "it does not take up the trail of the job before")
}

// judgeArrival: a job came from another queue, with its trail.
func (r *replay) judgeArrival(m *move) {
	m.name = moveArrive
	from, to := m.source.from, m.to.rec
	e := to.entry()
	r.want(m.to.place == from.place && !to.claimed(), "transition", m, "it went from %s to %s, with owner %q", from.place, m.to.place, to.Owner)
	r.want(grownByOne(from.rec, to) && e.Outcome == "moved" && to.Attempt == from.rec.Attempt, "I5", m, "the trail is not the old one and the move")
	if from.claimed() {
		r.want(int64(e.Token) == from.rev, "I2", m, "the claim of token %d was ended, the trail says %d", from.rev, e.Token)
	}
}

func (r *replay) judgeRequeue(m *move) {
	m.name = moveRequeue
	from, to := m.from.rec, m.to.rec
	if m.to.place != inJobs {
		r.illegal(m, "the job went from %s to %s", m.from.place, m.to.place)
		return
	}
	if !grownByOne(from, to) || to.entry().Outcome != "requeued" {
		r.illegal(m, "it came back from %s, and its trail does not say so", m.from.place)
		return
	}
	r.want(!to.claimed(), "transition", m, "it comes back with an owner")
	r.want(to.Failures == 0 && to.Losses == 0 && to.Attempt == from.Attempt, "I5", m,
		"it comes back with attempt %d, %d failures, %d losses, after attempt %d", to.Attempt, to.Failures, to.Losses, from.Attempt)
}

// judgeOpen: an open job is claimed, cancelled, edited, or, when it waits for its next
// attempt, requeued by somebody.
func (r *replay) judgeOpen(m *move) {
	from, to := m.from.rec, m.to.rec
	switch {
	case m.to.claimed():
		m.name = moveClaim
		r.want(sameTrail(from, to), "I5", m, "the trail changed")
		r.want(to.Failures == from.Failures && to.Losses == from.Losses, "I5", m, "counters changed")
		r.judgeClaim(m)
	case m.to.place == inDone && to.Outcome != "cancelled":
		m.name = moveComplete
		r.want(false, "I2", m, "an open job went to done as %q: nobody held a claim", to.Outcome)
		r.accepted(m)
	case m.to.place == inDone:
		m.name = moveCancel
		e := to.entry()
		r.want(grownByOne(from, to) && e.Outcome == "cancelled" && e.Attempt == 0 && e.Token == 0, "I5", m, "the trail is not the old one and the cancellation")
	case m.to.place == inDead && to.entry().Outcome == "buried":
		m.name = moveBury
		r.want(grownByOne(from, to) && to.Attempt == from.Attempt, "I5", m, "the trail is not the old one and the burial")
		r.want(to.Outcome == "dead", "transition", m, "its outcome in dead is %q", to.Outcome)
	case m.to.place == inJobs && grownByOne(from, to) && to.entry().Outcome == "requeued":
		r.want(from.Failures+from.Losses > 0, "transition", m, "a job that has neither failed nor been lost is requeued")
		r.judgeRequeue(m)
	case grownByOne(from, to) && (to.entry().Actor != "" || endings[to.entry().Outcome] == ""), r.check.asked(m.key, Edit):
		m.name = moveEdit
		r.want(to.Attempt == from.Attempt, "I5", m, "the ordinal went from %d to %d", from.Attempt, to.Attempt)
	default:
		r.illegal(m, "an open job was rewritten in %s, and its trail does not say by whom", m.to.place)
	}
}

// judgeClaim holds what is common to claims and reclaims.
func (r *replay) judgeClaim(m *move) {
	to := m.to.rec
	r.want(to.Attempt == m.from.rec.Attempt+1, "I5", m, "attempt %d follows %d", to.Attempt, m.from.rec.Attempt)
	r.want(r.lives(to.Owner, to.OwnerRev), "I4", m, "session %s (%d) is not there", to.Owner, to.OwnerRev)
	r.want(!r.paused[m.key.queue], "transition", m, "the queue is paused")
}

// judgeEnding: how a claim ends is in the trail, with its token.
func (r *replay) judgeEnding(m *move) {
	from, to := forgiven(m.from.rec, m.to.rec), m.to.rec
	e := to.entry()
	m.name = endings[e.Outcome]
	if m.name == "" || to.LogTotal == from.LogTotal {
		r.illegal(m, "a claimed job was rewritten in %s, and its trail does not say why", m.to.place)
		return
	}
	if m.name == moveLoss && m.to.claimed() {
		m.name = moveReclaim
	}
	r.want(int64(e.Token) == m.from.rev, "I2", m, "it was accepted under token %d, the claim's is %d", e.Token, m.from.rev)
	r.want(e.Owner == from.Owner && e.Attempt == from.Attempt, "I2", m,
		"it was accepted for attempt %d of %s, claimed is attempt %d of %s", e.Attempt, e.Owner, from.Attempt, from.Owner)
	r.want(grownByOne(from, to), "I5", m, "the trail is not the old one and this ending")
	r.judgeCounters(m, e)
	r.judgeGoal(m)
}

// judgeCounters: failures and losses are exact.
func (r *replay) judgeCounters(m *move, e workqueue.Attempt) {
	from, to := forgiven(m.from.rec, m.to.rec), m.to.rec
	failures, losses := from.Failures, from.Losses
	switch m.name {
	case moveFail:
		failures, losses = failures+1, 0
	case moveSnooze:
		losses = 0
	case moveLoss, moveReclaim:
		if e.Counted {
			losses++
		}
		r.want(!r.lives(from.Owner, from.OwnerRev), "I4", m, "its owner %s lives", from.Owner)
	}
	r.want(to.Failures == failures && to.Losses == losses, "I5", m,
		"it has %d failures and %d losses, want %d and %d", to.Failures, to.Losses, failures, losses)
	if m.name == moveReclaim {
		r.judgeClaim(m)
		return
	}
	r.want(to.Attempt == from.Attempt, "I5", m, "the ordinal went from %d to %d", from.Attempt, to.Attempt)
	r.want(!to.claimed(), "transition", m, "the owner is still named")
}

// judgeGoal: each ending leads where it may.
func (r *replay) judgeGoal(m *move) {
	to := m.to
	ok := false
	switch m.name {
	case moveComplete:
		ok = to.place == inDone && to.rec.Outcome == "completed"
		r.accepted(m)
	case moveCancel:
		ok = to.place == inDone && to.rec.Outcome == "cancelled"
	case moveFail, moveLoss:
		ok = to.place == inJobs && !to.rec.AtMostOnce || to.place == inDead
	case moveReclaim:
		ok = !to.rec.AtMostOnce
	case moveRelease:
		// A claim on which no handler began was no attempt.
		ok = to.place == inJobs || to.place == inDead && to.rec.AtMostOnce
	case moveSnooze, moveBreak, moveEdit:
		ok = to.place == inJobs && !to.rec.AtMostOnce || to.place == inDead && to.rec.AtMostOnce
	}
	r.want(ok, "transition", m, "it led to %s, with outcome %q", to.place, to.rec.Outcome)
	if to.place == inDead {
		r.want(to.rec.Outcome == "dead", "transition", m, "its outcome in dead is %q", to.rec.Outcome)
	}
}

// accepted counts the results of an incarnation, from one requeue to the next.
func (r *replay) accepted(m *move) {
	earlier := 0
	for _, other := range r.byJob[m.key] {
		switch {
		case other == m || other.born() != m.born():
		case other.name == moveComplete:
			earlier++
		case other.name == moveRequeue && other.from.place != inJobs:
			earlier = 0
		}
	}
	r.want(earlier == 0, "I1", m, "a second result was accepted")
}
