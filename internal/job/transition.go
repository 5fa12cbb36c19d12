package job

import (
	"cmp"
	"fmt"
	"maps"
	"time"
)

// Verb names a transition.
type Verb string

const (
	VerbClaim    Verb = "claim"         // an open, due job gets an owner
	VerbReclaim  Verb = "reclaim"       // an orphan gets a new owner, or is put back, or buried
	VerbComplete Verb = "complete"      // the result is accepted
	VerbFail     Verb = "fail"          // counts an attempt
	VerbSnooze   Verb = "snooze"        // put off, counted as nothing
	VerbRelease  Verb = "release"       // given back, counted as nothing
	VerbCancel   Verb = "cancel"        // by its handler or by anybody
	VerbRequeue  Verb = "requeue"       // back from dead or done, or from the wait after a failure
	VerbBreak    Verb = "break a claim" // the owner is fenced
	VerbBury     Verb = "bury"          // an open job, by somebody who finds it beyond its attempts
	VerbEdit     Verb = "edit"          // described anew by somebody; whoever claims it is fenced
	VerbMove     Verb = "move"          // to another queue; whoever claims it is fenced
)

// By says who intervenes, and why.
type By struct {
	Actor, Reason string
	// Revision is what was seen; 0 takes what is there now.
	Revision int64
	// BreakClaim lets an edit and a move take a claimed job from its owner.
	BreakClaim bool
}

// Event is what happens to a record. Everything that the transition needs is in
// it, random numbers and the reading of the clock too, so that the same event on
// the same record always gives the same next record.
type Event struct {
	Verb  Verb
	Now   time.Time
	Nonce string // the head nonce of the next record

	// The claim that is, or was: its token is the record's mod revision.
	Token Token

	// claim and reclaim
	Owner    string
	OwnerRev int64
	Assigned bool // by a dispatcher
	Counted  bool // reclaim: the loss counts against the job

	// complete
	Result []byte

	// fail, release, snooze, cancel
	Err       string
	Permanent bool
	Unbegun   bool      // release, snooze: no handler was started, so that it was no attempt
	At        time.Time // snooze and release: not before; zero is at once

	// fail and reclaim: how long until the next attempt
	Delay func(n int) time.Duration

	// others' interventions
	By   By
	Edit *Edition // edit: how the job is described from then on
	From string   // move: the queue that the job leaves
}

// Next is where a record goes.
type Next struct {
	Record *Record
	Where  Place
}

// At is the record as it was written at a revision.
func (n Next) At(rev int64) Snapshot { return Snapshot{Record: n.Record, Where: n.Where, Rev: rev} }

// Claims tells whether the record was claimed for the event's owner.
func (n Next) Claims() bool { return n.Where == InJobs && n.Record.Claimed() }

// Transition changes a record: the state machine of a job.
//
//	open --claim--> claimed --complete--> done
//	 ^                |------fail-------> open (run_at later) | dead when exhausted, permanent, at most once
//	 |                |------snooze, release, break-> open    | dead when at most once
//	 |                |------cancel-----> done (cancelled)
//	 |                |------reclaim (owner gone)---> claimed by another | open (run_at later) | dead
//	 |--bury--> dead
//	 |--edit, move--> open, described anew or in another queue; a claimed one too, when the claim is to be broken
//	 +--requeue-- done | dead | open (after a failure or a loss, and not due yet)
//
// It knows no clock and no etcd. Losses are counted apart from failures: the
// first counted loss is claimed again at once, a further one waits with backoff,
// the last one buries the job. A loss that does not count changes nothing but the
// trail. A handler's answer, a failure or a snooze, ends a row of losses: it shows
// that the job does not take its process with it. A release shows nothing. The
// error says why the event does not apply to the record.
func Transition(r *Record, where Place, e Event) (Next, error) {
	out := *r
	out.Nonce = e.Nonce
	if !applies(r, where, e) {
		return Next{}, misplaced(r, e)
	}
	switch e.Verb {
	case VerbClaim:
		return out.claimFor(e), nil
	case VerbReclaim:
		return out.applyLoss(e), nil
	case VerbRequeue:
		return out.requeue(e), nil
	case VerbCancel:
		return out.cancel(e), nil
	case VerbBury:
		out.Log(Attempt{EndedAt: Stamp(e.Now), Outcome: OutcomeBuried, Actor: e.By.Actor, Reason: e.By.Reason})
		return out.bury(e, cmp.Or(e.By.Reason, "buried by "+e.By.Actor)), nil
	case VerbEdit:
		return out.describe(e), nil
	case VerbMove:
		return out.leave(e, where), nil
	}
	return out.close(e), nil
}

// applies tells whether the record is where the event needs it.
func applies(r *Record, where Place, e Event) bool {
	switch e.Verb {
	case VerbClaim:
		return where == InJobs && /*mutant:claim-open*/ !r.Claimed() && r.Due(e.Now)
	case VerbRequeue:
		return where != InJobs || r.retrying(e.Now)
	case VerbCancel:
		return where == InJobs
	case VerbBury:
		return where == InJobs && !r.Claimed()
	case VerbEdit:
		return where == InJobs && e.Edit != nil && r.freeFor(e.By)
	case VerbMove:
		return where == InDead || where == InJobs && r.freeFor(e.By)
	case VerbReclaim, VerbComplete, VerbFail, VerbSnooze, VerbRelease, VerbBreak:
		return where == InJobs && r.Claimed()
	}
	return false
}

func misplaced(r *Record, e Event) error {
	return fmt.Errorf("%s job %s: %w", e.Verb, r.ID, ErrNotApplicable)
}

// claimFor opens the next attempt.
func (r *Record) claimFor(e Event) Next {
	r.Attempt = oneMore(r.Attempt)
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = e.Owner, e.OwnerRev, Stamp(e.Now), e.Assigned
	r.RunAt = time.Time{}
	return Next{r, InJobs}
}

// applyLoss decides what a lost attempt leads to.
func (r *Record) applyLoss(e Event) Next {
	r.endAttempt(e, OutcomeLost, "the owner's session ended")
	if e.Counted {
		r.Losses = oneMore(r.Losses)
	}
	switch {
	case r.AtMostOnce: //mutant:once-lost
		return r.bury(e, "lost: the owner's session ended, and the job may be started at most once")
	case e.Counted && r.Losses >= r.LossLimit(): //mutant:poison-buried
		return r.bury(e, fmt.Sprintf("lost %d times: every worker that took it ended before it made progress", r.Losses))
	case e.Counted && r.Losses > 1:
		return r.reopen(e.Now.Add(e.Delay(r.Losses - 1)))
	}
	return r.claimFor(e)
}

// close ends a claimed job's attempt by its owner, or by whoever breaks it.
func (r *Record) close(e Event) Next {
	switch e.Verb {
	case VerbComplete:
		r.endAttempt(e, OutcomeCompleted, "")
		r.setResult(e.Result)
		return r.finish(e, InDone, OutcomeCompleted, "")
	case VerbFail:
		r.endAttempt(e, OutcomeFailed, e.Err)
		r.Failures = oneMore(r.Failures)
		r.Losses = 0
		switch {
		case e.Permanent,
			r.AtMostOnce,                   //mutant:once-failed
			r.Failures >= r.AttemptLimit(): //mutant:failures-end
			return r.bury(e, e.Err)
		}
		return r.reopen(e.Now.Add(e.Delay(r.Failures)))
	case VerbSnooze:
		r.endAttempt(e, OutcomeSnoozed, e.Err)
		if !e.Unbegun {
			r.Losses = 0
		}
	case VerbBreak:
		r.endAttempt(e, OutcomeBroken, e.Err)
	default:
		r.endAttempt(e, OutcomeReleased, e.Err)
	}
	if r.AtMostOnce && !e.Unbegun { //mutant:once-released
		return r.bury(e, "the attempt ended as "+r.Attempts[len(r.Attempts)-1].Outcome+", and the job may be started at most once")
	}
	return r.reopen(e.At)
}

func (r *Record) cancel(e Event) Next {
	if r.Claimed() {
		r.endAttempt(e, OutcomeCancelled, e.Err)
	} else {
		r.Log(Attempt{EndedAt: Stamp(e.Now), Outcome: OutcomeCancelled, Actor: e.By.Actor, Reason: e.By.Reason})
	}
	why := e.Err
	if why == "" {
		why = e.By.Reason
	}
	return r.finish(e, InDone, OutcomeCancelled, why)
}

// requeue starts the counters anew; the ordinal of attempts and the trail go on.
func (r *Record) requeue(e Event) Next {
	r.Log(Attempt{EndedAt: Stamp(e.Now), Outcome: OutcomeRequeued, Actor: e.By.Actor, Reason: e.By.Reason})
	r.Failures, r.Losses = 0, 0
	r.Outcome, r.FinishedAt, r.Error = "", time.Time{}, ""
	r.setResult(nil)
	return r.reopen(time.Time{})
}

// endAttempt writes the current attempt's entry and takes the owner out.
func (r *Record) endAttempt(e Event, o string, why string) {
	r.Log(Attempt{
		Attempt: r.Attempt, Owner: r.Owner, Token: e.Token, ClaimedAt: r.ClaimedAt, EndedAt: Stamp(e.Now),
		Outcome: o, Error: why, Actor: e.By.Actor, Reason: e.By.Reason, Counted: o == OutcomeLost && e.Counted,
	})
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = "", 0, time.Time{}, false
}

func (r *Record) reopen(at time.Time) Next {
	r.RunAt = time.Time{}
	if !at.IsZero() {
		r.RunAt = Stamp(at)
	}
	return Next{r, InJobs}
}

func (r *Record) bury(e Event, why string) Next { return r.finish(e, InDead, OutcomeDead, why) }

func (r *Record) finish(e Event, where Place, o string, why string) Next {
	r.Outcome, r.FinishedAt, r.Error = o, Stamp(e.Now), Shorten(why, MaxError)
	r.RunAt = time.Time{}
	return Next{r, where}
}

const (
	defaultMaxAttempts = 5
	defaultMaxLosses   = 3
)

// AttemptLimit is how many failures bury the job.
func (r *Record) AttemptLimit() int {
	if r.MaxAttempts > 0 {
		return r.MaxAttempts
	}
	return defaultMaxAttempts
}

// LossLimit is how many counted losses bury the job.
func (r *Record) LossLimit() int {
	if r.MaxLosses > 0 {
		return r.MaxLosses
	}
	return defaultMaxLosses
}

// freeFor tells whether somebody may take a live job as it is: nobody's, or one that
// can be taken from its owner. One that may be started at most once was started.
func (r *Record) freeFor(b By) bool {
	return !r.Claimed() || b.BreakClaim && /*mutant:edit-at-most-once*/ !r.AtMostOnce //mutant:edit-claim
}

// describe takes up what the edit says.
func (r *Record) describe(e Event) Next {
	r.intervened(e, OutcomeEdited)
	p := e.Edit
	r.Kind, r.Labels, r.Priority, r.MaxAttempts, r.MaxLosses = p.Kind, maps.Clone(p.Labels), p.Priority, p.MaxAttempts, p.MaxLosses
	r.TimeoutMS = inMilliseconds(p.Timeout)
	if p.Repacked {
		r.pack(p.Payload)
	}
	if p.RunAt.After(e.Now) {
		return r.reopen(p.RunAt)
	}
	return r.reopen(time.Time{})
}

// intervened ends the claim, if there is one, and writes who did what into the trail.
func (r *Record) intervened(e Event, o string) {
	if r.Claimed() {
		r.endAttempt(e, o, "")
		return
	}
	r.Log(Attempt{EndedAt: Stamp(e.Now), Outcome: o, Actor: e.By.Actor, Reason: e.By.Reason})
}

// leave takes a record to another queue: what is dead stays dead, all else is open.
func (r *Record) leave(e Event, where Place) Next {
	runAt := r.RunAt
	r.intervened(e, OutcomeMoved)
	r.Attempts[len(r.Attempts)-1].From = e.From
	if where == InDead {
		return Next{r, InDead}
	}
	return r.reopen(runAt)
}

// Outcome is what the event's closing write wants to be.
func (e Event) Outcome() string {
	switch e.Verb {
	case VerbComplete:
		return OutcomeCompleted
	case VerbSnooze:
		return OutcomeSnoozed
	case VerbCancel:
		return OutcomeCancelled
	case VerbFail:
		return OutcomeFailed
	}
	return OutcomeReleased
}
