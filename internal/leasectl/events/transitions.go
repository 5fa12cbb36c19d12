package events

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Event is something that happened. Revisions and tokens are strings: they may exceed what a JSON number keeps
// exactly.
type Event struct {
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

	Rev int64 `json:"-"`
}

// At says at which revision of the store it happened.
func (e *Event) At(rev int64) {
	if e.Rev = rev; rev > 0 {
		e.Revision = strconv.FormatInt(rev, 10)
	}
}

// by says who: a session, unless somebody intervened.
func (e *Event) by(session, actor string) {
	e.Session, e.Actor = session, actor
	if actor == "" {
		e.Actor = keyspace.IdentityOf(session)
	}
}

// The types of events that happen to jobs. Others are in keys.go.
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

// Places are the records of one ID at one revision; an ID is in one of them.
type Places struct {
	Live, Done, Dead *workqueue.Job
	Unread           error // why there is a record that cannot be read
}

// Job is the record that there is, or nil.
func (p Places) Job() *workqueue.Job {
	for _, j := range []*workqueue.Job{p.Live, p.Dead, p.Done} {
		if j != nil {
			return j
		}
	}
	return nil
}

// OfJob tells what happened to a job at a revision, of the records before and after it, without asking etcd. It is
// nil when nothing did.
func OfJob(rev int64, before, after Places) *Event {
	old, now := before.Job(), after.Job()
	e := &Event{}
	switch {
	case now == nil && old == nil:
		return nil
	case now == nil:
		e.about(old)
		e.Type = evDeleted
		if before.Done != nil {
			e.Type = evExpired
		}
	case after.Live == nil:
		e.about(now)
		e.over(now, old == nil)
	case old == nil || before.Live == nil:
		e.about(now)
		e.opened(now, old)
	default:
		e.about(now)
		e.moved(old, now)
	}
	e.At(rev)
	if e.Type == evClaimed || e.Type == evReclaimed {
		e.Token = e.Revision
	}
	return e
}

func (e *Event) about(j *workqueue.Job) { e.Queue, e.ID, e.Kind = j.Queue, j.ID, j.Kind }

// over is a job that has ended.
func (e *Event) over(j *workqueue.Job, fromNothing bool) {
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
		e.Detail = fmt.Sprintf("result %d B, %s", len(j.Result), cmp.Or(output.TookBetween(last.ClaimedAt, last.EndedAt), "-"))
	}
	if last.Reason != "" {
		e.Detail = last.Reason
	}
}

// opened is a job that is live where it was not.
func (e *Event) opened(j, old *workqueue.Job) {
	if last := lastAttempt(j); last != nil && last.Outcome == evRequeued && (old == nil || j.LogTotal > old.LogTotal) {
		e.Type, e.Time, e.Detail = evRequeued, last.EndedAt, last.Reason
		e.by("", last.Actor)
		return
	}
	e.enqueued(j)
}

func (e *Event) enqueued(j *workqueue.Job) {
	e.Type, e.Time = evEnqueued, j.EnqueuedAt
	e.Detail = fmt.Sprintf("priority %d", j.Priority)
	if j.RunAt.After(j.EnqueuedAt) && j.Attempt == 0 {
		e.Detail += ", due in " + output.Age(j.RunAt.Sub(j.EnqueuedAt))
	}
}

// moved is a live job that stays one.
func (e *Event) moved(old, now *workqueue.Job) {
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
		e.Ended(last, now.RunAt)
	default:
		e.Type, e.Detail = evEdited, strings.Join(differences(old, now), ", ")
	}
}

func (e *Event) claimed(owner string, at time.Time, attempt int) {
	e.Type, e.Time, e.Attempt = evClaimed, at, attempt
	e.by(owner, "")
	if _, lease, ok := strings.Cut(owner, "."); ok {
		e.Detail = "session " + lease
	}
}

// Ended is an attempt after which the job is open again.
func (e *Event) Ended(a *workqueue.Attempt, runAt time.Time) {
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
		e.Detail += "again in " + output.Age(runAt.Sub(a.EndedAt).Round(time.Second))
	}
	if a.Repeated > 0 {
		e.Detail = strings.TrimPrefix(fmt.Sprintf("%s; the last of %d like it", e.Detail, a.Repeated+1), "; ")
	}
}

func (e *Event) attempt(a *workqueue.Attempt) {
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
	add(output.Labels(old.Labels) != output.Labels(now.Labels), "labels")
	return names
}

// OfRefusal is a late write that was refused, by the evidence that is kept of it; nil without any.
func OfRefusal(keys keyspace.Keyspace, queue string, kv *mvccpb.KeyValue) *Event {
	if kv == nil {
		return nil
	}
	id, r, ok := job.RefusalIn(keys, kv)
	if !ok {
		return nil
	}
	e := &Event{Type: evFenced, Time: r.At, Queue: queue, ID: id, Token: coord.Token(r.Token).String(), Attempt: r.Attempt, Detail: "late " + r.Verb + " refused"}
	e.by(r.Owner, "")
	if r.Size > 0 {
		e.Detail += fmt.Sprintf(", result %d B", r.Size)
	}
	return e
}

// Clock is when it happened, as people read it.
func (e Event) Clock() string {
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
}
