package leasectl

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/workqueue"
)

// eventItem is something that happened. Revisions and tokens are strings: they may exceed what a JSON number keeps
// exactly.
type eventItem struct {
	Revision string    `json:"revision"`      // empty when it is not known any more
	Time     time.Time `json:"time,omitzero"` // by the clock of whoever did it
	Type     string    `json:"type"`
	Queue    string    `json:"queue,omitempty"`
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"` // of a lock or an election: lock/NAME
	Kind     string    `json:"kind,omitempty"`
	Actor    string    `json:"actor,omitempty"` // a session's identity, or who intervened
	Session  string    `json:"session,omitempty"`
	Token    string    `json:"token,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Detail   string    `json:"detail,omitempty"`

	rev int64
}

func (e *eventItem) at(rev int64) {
	if e.rev = rev; rev > 0 {
		e.Revision = strconv.FormatInt(rev, 10)
	}
}

// by says who: a session, unless somebody intervened.
func (e *eventItem) by(session, actor string) {
	e.Session, e.Actor = session, actor
	if actor == "" {
		e.Actor = identityOf(session)
	}
}

// The types of events that happen to jobs. Others are in events_keys.go.
const (
	evEnqueued  = "enqueued"
	evClaimed   = "claimed"
	evReclaimed = "reclaimed" // from an owner whose session is gone
	evDone      = "done"
	evDead      = "dead"
	evCancelled = "cancelled"
	evRequeued  = "requeued"
	evEdited    = "edited"
	evExpired   = "expired"  // a finished job whose retention is over
	evDeleted   = "deleted"  // a job that nobody finished
	evImported  = "imported" // a job that came as finished or dead
	evFenced    = "FENCED"
	// The rest are the outcomes of attempts: failed, lost, released, snoozed, broken.
)

// places are the records of one ID at one revision; an ID is in one of them.
type places struct {
	live, done, dead *workqueue.Job
	unread           error // why there is a record that cannot be read
}

func (p places) job() *workqueue.Job {
	for _, j := range []*workqueue.Job{p.live, p.dead, p.done} {
		if j != nil {
			return j
		}
	}
	return nil
}

// jobEvent tells what happened to a job at a revision, of the records before and after it, without asking etcd. It is
// nil when nothing did.
func jobEvent(rev int64, before, after places) *eventItem {
	old, now := before.job(), after.job()
	e := &eventItem{}
	switch {
	case now == nil && old == nil:
		return nil
	case now == nil:
		e.about(old)
		e.Type = evDeleted
		if before.done != nil {
			e.Type = evExpired
		}
	case after.live == nil:
		e.about(now)
		e.over(now, old == nil)
	case old == nil || before.live == nil:
		e.about(now)
		e.opened(now, old)
	default:
		e.about(now)
		e.moved(old, now)
	}
	e.at(rev)
	if e.Type == evClaimed || e.Type == evReclaimed {
		e.Token = e.Revision
	}
	return e
}

func (e *eventItem) about(j *workqueue.Job) { e.Queue, e.ID, e.Kind = j.Queue, j.ID, j.Kind }

// over is a job that has ended.
func (e *eventItem) over(j *workqueue.Job, fromNothing bool) {
	e.Time = j.FinishedAt
	switch j.State {
	case workqueue.StateCancelled:
		e.Type, e.Detail = evCancelled, j.Error
	case workqueue.StateDead:
		e.Type, e.Detail = evDead, j.Error
	default:
		e.Type = evDone
	}
	if fromNothing {
		e.Type = evImported
	}
	last := lastAttempt(j)
	if last == nil || !last.EndedAt.Equal(j.FinishedAt) {
		return
	}
	e.attempt(last)
	if e.Type == evDone {
		e.Detail = fmt.Sprintf("result %d B, %s", len(j.Result), orDash(tookBetween(last.ClaimedAt, last.EndedAt)))
	}
	if last.Reason != "" {
		e.Detail = last.Reason
	}
}

// opened is a job that is live where it was not.
func (e *eventItem) opened(j, old *workqueue.Job) {
	if last := lastAttempt(j); last != nil && last.Outcome == evRequeued && (old == nil || j.LogTotal > old.LogTotal) {
		e.Type, e.Time, e.Detail = evRequeued, last.EndedAt, last.Reason
		e.by("", last.Actor)
		return
	}
	e.enqueued(j)
}

func (e *eventItem) enqueued(j *workqueue.Job) {
	e.Type, e.Time = evEnqueued, j.EnqueuedAt
	e.Detail = fmt.Sprintf("priority %d", j.Priority)
	if j.RunAt.After(j.EnqueuedAt) && j.Attempt == 0 {
		e.Detail += ", due in " + age(j.RunAt.Sub(j.EnqueuedAt))
	}
}

// moved is a live job that stays one.
func (e *eventItem) moved(old, now *workqueue.Job) {
	last := lastAttempt(now)
	logged := now.LogTotal > old.LogTotal && last != nil
	switch {
	case now.Owner != "" && logged && last.Outcome == "lost":
		e.Type, e.Time, e.Attempt = evReclaimed, now.ClaimedAt, now.Attempt
		e.by(now.Owner, "")
		e.Detail = "session " + last.Owner + " is gone"
	case now.Owner != "":
		e.claimed(now.Owner, now.ClaimedAt, now.Attempt)
	case logged:
		e.ended(last, now.RunAt)
	default:
		e.Type, e.Detail = evEdited, strings.Join(differences(old, now), ", ")
	}
}

func (e *eventItem) claimed(owner string, at time.Time, attempt int) {
	e.Type, e.Time, e.Attempt = evClaimed, at, attempt
	e.by(owner, "")
	if _, lease, ok := strings.Cut(owner, "."); ok {
		e.Detail = "session " + lease
	}
}

// ended is an attempt after which the job is open again.
func (e *eventItem) ended(a *workqueue.Attempt, runAt time.Time) {
	e.Type, e.Time, e.Detail = a.Outcome, a.EndedAt, a.Error
	if a.Outcome == "completed" {
		e.Type = evDone
	}
	if a.Reason != "" {
		e.Detail = a.Reason
	}
	e.attempt(a)
	if runAt.After(a.EndedAt) {
		if e.Detail != "" {
			e.Detail += "; "
		}
		e.Detail += "again in " + age(runAt.Sub(a.EndedAt).Round(time.Second))
	}
	if a.Repeated > 0 {
		e.Detail = strings.TrimPrefix(fmt.Sprintf("%s; the last of %d like it", e.Detail, a.Repeated+1), "; ")
	}
}

func (e *eventItem) attempt(a *workqueue.Attempt) {
	e.Attempt = a.Attempt
	e.by(a.Owner, a.Actor)
	if !a.Token.IsZero() {
		e.Token = a.Token.String()
	}
}

func lastAttempt(j *workqueue.Job) *workqueue.Attempt {
	if len(j.Attempts) == 0 {
		return nil
	}
	return &j.Attempts[len(j.Attempts)-1]
}

// differences names the fields that somebody changed.
func differences(old, now *workqueue.Job) (names []string) {
	add := func(differs bool, name string) {
		if differs {
			names = append(names, name)
		}
	}
	add(string(old.Payload) != string(now.Payload) || old.PayloadSize != now.PayloadSize, "payload")
	add(old.Priority != now.Priority, "priority")
	add(old.Kind != now.Kind, "kind")
	add(!old.RunAt.Equal(now.RunAt), "run at")
	add(old.MaxAttempts != now.MaxAttempts, "max attempts")
	add(old.Timeout != now.Timeout, "timeout")
	add(labelText(old.Labels) != labelText(now.Labels), "labels")
	return names
}

// refusalEvent is a late write that was refused.
func refusalEvent(queue, id string, r workqueue.Refusal) eventItem {
	e := eventItem{Type: evFenced, Time: r.At, Queue: queue, ID: id, Token: r.Token.String(), Attempt: r.Attempt, Detail: "late " + r.Verb + " refused"}
	e.by(r.Owner, "")
	if r.Size > 0 {
		e.Detail += fmt.Sprintf(", result %d B", r.Size)
	}
	return e
}

func (e eventItem) clock() string {
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
}

func decodeRefusal(value []byte) (r workqueue.Refusal, ok bool) {
	err := json.Unmarshal(value, &r)
	return r, err == nil && r.Verb != ""
}
