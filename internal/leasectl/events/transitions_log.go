package events

import (
	"slices"

	"github.com/leasekit/leasekit/workqueue"
)

// OfLog are the transitions that a job's own record tells: its log, its claim and its end. created is the revision
// that made the live key, where that is known. The revision of what only the log tells is that of a claim, its token.
func OfLog(j *workqueue.Job, created int64) (events []Event) {
	add := func(rev int64, fill func(*Event)) {
		e := Event{}
		e.about(j)
		e.At(rev)
		fill(&e)
		if e.Type == evClaimed || e.Type == evReclaimed {
			e.Token = e.Revision
		}
		events = append(events, e)
	}
	if j.LogTotal == len(j.Attempts)+Repeats(j) { // nothing is cut off
		if slices.ContainsFunc(j.Attempts, func(a workqueue.Attempt) bool { return a.Outcome == evRequeued }) {
			created = 0 // of another key
		}
		add(created, func(e *Event) { e.enqueued(j) })
	}
	over := !j.State.Live()
	for i := range j.Attempts {
		a := &j.Attempts[i]
		if a.Attempt > 0 {
			add(int64(a.Token), func(e *Event) { e.began(j, i, a) })
		}
		switch {
		case over && i == len(j.Attempts)-1 && a.EndedAt.Equal(j.FinishedAt): // the end says it
		case a.Outcome == "lost" && reclaimedAt(j, i+1): // the next claim says it
		default:
			add(0, func(e *Event) { e.Ended(a, a.EndedAt) })
		}
	}
	switch {
	case over:
		add(j.Revision, func(e *Event) { e.over(j, false) })
	case j.Owner != "":
		add(int64(j.Token), func(e *Event) {
			e.claimed(j.Owner, j.ClaimedAt, j.Attempt)
			if reclaimedAt(j, len(j.Attempts)) {
				e.reclaimed(j.Attempts[len(j.Attempts)-1].Owner)
			}
		})
	}
	return events
}

// began is the claim that an attempt of the log began with.
func (e *Event) began(j *workqueue.Job, i int, a *workqueue.Attempt) {
	e.claimed(a.Owner, a.ClaimedAt, a.Attempt)
	if reclaimedAt(j, i) {
		e.reclaimed(j.Attempts[i-1].Owner)
	}
}

func (e *Event) reclaimed(from string) {
	e.Type, e.Detail = evReclaimed, "session "+from+" is gone"
}

// reclaimedAt tells whether attempt i of the log, or the one behind the log, took the job in the same moment in which
// the attempt before was found lost.
func reclaimedAt(j *workqueue.Job, i int) bool {
	if i < 1 || i > len(j.Attempts) || j.Attempts[i-1].Outcome != "lost" {
		return false
	}
	at := j.ClaimedAt
	if i < len(j.Attempts) {
		at = j.Attempts[i].ClaimedAt
	}
	return at.Equal(j.Attempts[i-1].EndedAt)
}

// Repeats counts the entries that were collapsed into others.
func Repeats(j *workqueue.Job) (n int) {
	for _, a := range j.Attempts {
		n += a.Repeated
	}
	return n
}

// Merge puts events that were found elsewhere into those of a log: one that says the same gives its revision, any
// other stands where its revision, or else its time, wants it. Both are oldest first.
func Merge(log, found []Event) []Event {
	merged := slices.Clone(log)
	for _, e := range found {
		if i := sameEvent(merged, e); i >= 0 {
			if merged[i].Rev == 0 {
				merged[i].At(e.Rev)
			}
			if e.Detail != "" && merged[i].Type != evFenced {
				merged[i].Detail = e.Detail // it saw the whole record
			}
			continue
		}
		at := slices.IndexFunc(merged, func(m Event) bool {
			return m.Rev > 0 && e.Rev > 0 && m.Rev > e.Rev || (m.Rev == 0 || e.Rev == 0) && m.Time.After(e.Time)
		})
		if at < 0 {
			at = len(merged)
		}
		merged = slices.Insert(merged, at, e)
	}
	return merged
}

func sameEvent(events []Event, e Event) int {
	return slices.IndexFunc(events, func(m Event) bool {
		return m.Type == e.Type && m.Time.Equal(e.Time) && m.Attempt == e.Attempt && !e.Time.IsZero() && (m.Rev == 0 || e.Rev == 0 || m.Rev == e.Rev)
	})
}
