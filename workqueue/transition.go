package workqueue

import (
	"cmp"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
)

// verb names a transition.
type verb string

const (
	verbClaim    verb = "claim"         // an open, due job gets an owner
	verbReclaim  verb = "reclaim"       // an orphan gets a new owner, or is put back, or buried
	verbComplete verb = "complete"      // the result is accepted
	verbFail     verb = "fail"          // counts an attempt
	verbSnooze   verb = "snooze"        // put off, counted as nothing
	verbRelease  verb = "release"       // given back, counted as nothing
	verbCancel   verb = "cancel"        // by its handler or by anybody
	verbRequeue  verb = "requeue"       // back from dead or done, or from the wait after a failure
	verbBreak    verb = "break a claim" // the owner is fenced
	verbBury     verb = "bury"          // an open job, by somebody who finds it beyond its attempts
	verbEdit     verb = "edit"          // described anew by somebody; whoever claims it is fenced
	verbMove     verb = "move"          // to another queue; whoever claims it is fenced
)

// event is what happens to a record. Everything that the transition needs is in
// it, random numbers and the reading of the clock too, so that the same event on
// the same record always gives the same next record.
type event struct {
	verb  verb
	now   time.Time
	nonce string // the head nonce of the next record

	// The claim that is, or was: its token is the record's mod revision.
	token coord.Token

	// claim and reclaim
	owner    string
	ownerRev int64
	assigned bool // by a dispatcher
	counted  bool // reclaim: the loss counts against the job

	// complete
	result []byte

	// fail, release, snooze, cancel
	err       string
	permanent bool
	unbegun   bool      // release, snooze: no handler was started, so that it was no attempt
	at        time.Time // snooze and release: not before; zero is at once

	// fail and reclaim: how long until the next attempt
	delay func(n int) time.Duration

	// others' interventions
	by   By
	edit *edition // edit: how the job is described from then on
	from string   // move: the queue that the job leaves
}

// next is where a record goes.
type next struct {
	record *record
	where  place
}

// claims tells whether the record was claimed for the event's owner.
func (n next) claims() bool { return n.where == inJobs && n.record.claimed() }

// transition changes a record: the state machine of a job.
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
func transition(r *record, where place, e event) (next, error) {
	out := *r
	out.Nonce = e.nonce
	if !applies(r, where, e) {
		return next{}, misplaced(r, e)
	}
	switch e.verb {
	case verbClaim:
		return out.claimFor(e), nil
	case verbReclaim:
		return out.applyLoss(e), nil
	case verbRequeue:
		return out.requeue(e), nil
	case verbCancel:
		return out.cancel(e), nil
	case verbBury:
		out.log(Attempt{EndedAt: stamp(e.now), Outcome: outcomeBuried, Actor: e.by.Actor, Reason: e.by.Reason})
		return out.bury(e, cmp.Or(e.by.Reason, "buried by "+e.by.Actor)), nil
	case verbEdit:
		return out.describe(e), nil
	case verbMove:
		return out.leave(e, where), nil
	}
	return out.close(e), nil
}

// applies tells whether the record is where the event needs it.
func applies(r *record, where place, e event) bool {
	switch e.verb {
	case verbClaim:
		return where == inJobs && /*mutant:claim-open*/ !r.claimed() && r.due(e.now)
	case verbRequeue:
		return where != inJobs || r.retrying(e.now)
	case verbCancel:
		return where == inJobs
	case verbBury:
		return where == inJobs && !r.claimed()
	case verbEdit:
		return where == inJobs && e.edit != nil && r.freeFor(e.by)
	case verbMove:
		return where == inDead || where == inJobs && r.freeFor(e.by)
	case verbReclaim, verbComplete, verbFail, verbSnooze, verbRelease, verbBreak:
		return where == inJobs && r.claimed()
	}
	return false
}

func misplaced(r *record, e event) error {
	return fmt.Errorf("%s job %s: %w", e.verb, r.ID, ErrNotApplicable)
}

// claimFor opens the next attempt.
func (r *record) claimFor(e event) next {
	r.Attempt = oneMore(r.Attempt)
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = e.owner, e.ownerRev, stamp(e.now), e.assigned
	r.RunAt = time.Time{}
	return next{r, inJobs}
}

// applyLoss decides what a lost attempt leads to.
func (r *record) applyLoss(e event) next {
	r.endAttempt(e, outcomeLost, "the owner's session ended")
	if e.counted {
		r.Losses = oneMore(r.Losses)
	}
	switch {
	case r.AtMostOnce: //mutant:once-lost
		return r.bury(e, "lost: the owner's session ended, and the job may be started at most once")
	case e.counted && r.Losses >= r.maxLosses(): //mutant:poison-buried
		return r.bury(e, fmt.Sprintf("lost %d times: every worker that took it ended before it made progress", r.Losses))
	case e.counted && r.Losses > 1:
		return r.reopen(e.now.Add(e.delay(r.Losses - 1)))
	}
	return r.claimFor(e)
}

// close ends a claimed job's attempt by its owner, or by whoever breaks it.
func (r *record) close(e event) next {
	switch e.verb {
	case verbComplete:
		r.endAttempt(e, outcomeCompleted, "")
		r.setResult(e.result)
		return r.finish(e, inDone, outcomeCompleted, "")
	case verbFail:
		r.endAttempt(e, outcomeFailed, e.err)
		r.Failures = oneMore(r.Failures)
		r.Losses = 0
		switch {
		case e.permanent,
			r.AtMostOnce,                  //mutant:once-failed
			r.Failures >= r.maxAttempts(): //mutant:failures-end
			return r.bury(e, e.err)
		}
		return r.reopen(e.now.Add(e.delay(r.Failures)))
	case verbSnooze:
		r.endAttempt(e, outcomeSnoozed, e.err)
		if !e.unbegun {
			r.Losses = 0
		}
	case verbBreak:
		r.endAttempt(e, outcomeBroken, e.err)
	default:
		r.endAttempt(e, outcomeReleased, e.err)
	}
	if r.AtMostOnce && !e.unbegun { //mutant:once-released
		return r.bury(e, "the attempt ended as "+r.Attempts[len(r.Attempts)-1].Outcome+", and the job may be started at most once")
	}
	return r.reopen(e.at)
}

func (r *record) cancel(e event) next {
	if r.claimed() {
		r.endAttempt(e, outcomeCancelled, e.err)
	} else {
		r.log(Attempt{EndedAt: stamp(e.now), Outcome: outcomeCancelled, Actor: e.by.Actor, Reason: e.by.Reason})
	}
	why := e.err
	if why == "" {
		why = e.by.Reason
	}
	return r.finish(e, inDone, outcomeCancelled, why)
}

// requeue starts the counters anew; the ordinal of attempts and the trail go on.
func (r *record) requeue(e event) next {
	r.log(Attempt{EndedAt: stamp(e.now), Outcome: outcomeRequeued, Actor: e.by.Actor, Reason: e.by.Reason})
	r.Failures, r.Losses = 0, 0
	r.Outcome, r.FinishedAt, r.Error = "", time.Time{}, ""
	r.setResult(nil)
	return r.reopen(time.Time{})
}

// endAttempt writes the current attempt's entry and takes the owner out.
func (r *record) endAttempt(e event, o string, why string) {
	r.log(Attempt{
		Attempt: r.Attempt, Owner: r.Owner, Token: e.token, ClaimedAt: r.ClaimedAt, EndedAt: stamp(e.now),
		Outcome: o, Error: why, Actor: e.by.Actor, Reason: e.by.Reason, Counted: o == outcomeLost && e.counted,
	})
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = "", 0, time.Time{}, false
}

func (r *record) reopen(at time.Time) next {
	r.RunAt = time.Time{}
	if !at.IsZero() {
		r.RunAt = stamp(at)
	}
	return next{r, inJobs}
}

func (r *record) bury(e event, why string) next { return r.finish(e, inDead, outcomeDead, why) }

func (r *record) finish(e event, where place, o string, why string) next {
	r.Outcome, r.FinishedAt, r.Error = o, stamp(e.now), shorten(why, maxError)
	r.RunAt = time.Time{}
	return next{r, where}
}

const (
	defaultMaxAttempts = 5
	defaultMaxLosses   = 3
)

func (r *record) maxAttempts() int {
	if r.MaxAttempts > 0 {
		return r.MaxAttempts
	}
	return defaultMaxAttempts
}

func (r *record) maxLosses() int {
	if r.MaxLosses > 0 {
		return r.MaxLosses
	}
	return defaultMaxLosses
}
