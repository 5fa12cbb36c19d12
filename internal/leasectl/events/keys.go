package events

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/workqueue"
)

// The types of events beside those of jobs.
const (
	evChanged       = "changed" // a record whose state before is not known any more
	evUnreadable    = "unreadable"
	evProgress      = "progress"
	evPaused        = "paused"
	evResumed       = "resumed"
	evConfigured    = "configured"
	evWorkerJoined  = "worker-joined"
	evWorkerLeft    = "worker-left"
	evSessionOpened = "session-opened"
	evSessionEnded  = "session-ended"
	evLocked        = "locked"
	evUnlocked      = "unlocked"
	evElected       = "elected"
	evResigned      = "resigned"
)

// Types are all that can happen.
var Types = []string{
	evEnqueued, evClaimed, evReclaimed, evDone, "failed", "lost", "released", "snoozed", "broken", evDead, evCancelled, evRequeued, evEdited,
	evExpired, evDeleted, evImported, evFenced, evChanged, evUnreadable, evProgress, evPaused, evResumed, evConfigured,
	evWorkerJoined, evWorkerLeft, evSessionOpened, evSessionEnded, evLocked, evUnlocked, evElected, evResigned,
}

// keyChange is what one revision did to one key. old is nil when the key was not there, or is not known; now is nil when
// it was deleted.
type keyChange struct {
	key      string
	old, now *mvccpb.KeyValue
}

// created tells that the key was not there before.
func (c keyChange) created() bool { return c.now != nil && c.now.CreateRevision == c.now.ModRevision }

// eventsOf tells what one revision did, of the keys that it changed, in their order. It asks nothing of etcd.
func eventsOf(keys keyspace.Keyspace, rev int64, changes []keyChange) (events []Event) {
	told := map[string]bool{}
	for _, c := range changes {
		p, ok := keys.Parse(c.key)
		if !ok {
			continue
		}
		var e *Event
		switch p.Kind {
		case "jobs", "done", "dead":
			job := p.Queue + "\x00" + p.ID
			if told[job] {
				continue
			}
			told[job] = true
			e = eventOfJob(keys, rev, p, changes)
		case "refused":
			e = OfRefusal(keys, p.Queue, c.now)
		case "progress":
			e = progressEvent(p, c)
		case "config":
			e = configEvent(p, c)
		case "workers":
			e = comeAndGo(p, c, evWorkerJoined, evWorkerLeft)
		case "sessions":
			e = comeAndGo(p, c, evSessionOpened, evSessionEnded)
		case "locks":
			e = holderEvent(p, c, "lock", evLocked, evUnlocked)
		case "elections":
			e = holderEvent(p, c, "election", evElected, evResigned)
		}
		if e != nil {
			e.At(rev)
			events = append(events, *e)
		}
	}
	return events
}

// eventOfJob takes what the revision did to all records of one job.
func eventOfJob(keys keyspace.Keyspace, rev int64, job keyspace.ParsedKey, changes []keyChange) *Event {
	var before, after Places
	unknown := false
	for _, c := range changes {
		p, ok := keys.Parse(c.key)
		if !ok || p.Queue != job.Queue || p.ID != job.ID {
			continue
		}
		old, err := place(keys, &before, p.Kind, c.old)
		now, nowErr := place(keys, &after, p.Kind, c.now)
		switch {
		case nowErr != nil:
			err = nowErr
		case err != nil && now:
			err = nil // it is repaired
		}
		unknown = unknown || now && !old && c.old == nil && !c.created() // what was before cannot be told any more
		if err != nil {
			return &Event{Type: evUnreadable, Queue: job.Queue, ID: job.ID, Detail: err.Error()}
		}
	}
	if unknown && before.Job() == nil {
		e := &Event{Type: evChanged}
		e.about(after.Job())
		return e
	}
	return OfJob(rev, before, after)
}

// place puts a record where its key belongs; ok tells that it was one.
func place(keys keyspace.Keyspace, into *Places, kind string, kv *mvccpb.KeyValue) (ok bool, err error) {
	j := &workqueue.Job{}
	if ok, err = j.ReadKey(keys, kv); !ok {
		return false, err
	}
	switch kind {
	case "jobs":
		into.Live = j
	case "done":
		into.Done = j
	case "dead":
		into.Dead = j
	}
	return true, nil
}

func progressEvent(p keyspace.ParsedKey, c keyChange) *Event {
	if c.now == nil {
		return nil
	}
	var note struct {
		Token string    `json:"token"`
		At    time.Time `json:"at"`
	}
	_ = json.Unmarshal(c.now.Value, &note) // what cannot be read is left out
	return &Event{Type: evProgress, Queue: p.Queue, ID: p.ID, Token: note.Token, Time: note.At}
}

func configEvent(p keyspace.ParsedKey, c keyChange) *Event {
	if c.now == nil {
		return &Event{Type: evConfigured, Queue: p.Queue, Detail: "config deleted"}
	}
	var oldSet, nowSet workqueue.Config
	old, _ := job.DecodeConfig(c.old.GetValue()) // what cannot be read counts as empty
	now, _ := job.DecodeConfig(c.now.Value)
	_, _ = oldSet.ReadSettings(c.old.GetValue()), nowSet.ReadSettings(c.now.Value)
	e := &Event{Type: evConfigured, Queue: p.Queue, Actor: now.Actor, Detail: now.Reason}
	switch {
	case now.Paused && !old.Paused:
		e.Type, e.Time = evPaused, now.At
	case old.Paused && !now.Paused:
		e.Type, e.Time = evResumed, now.At
	case now.Mode != old.Mode:
		e.Actor, e.Time, e.Detail = now.SetBy, now.SetAt, "mode "+cmp.Or(now.Mode, job.ModeClaim)
	case nowSet != oldSet:
		e.Actor, e.Time, e.Detail = now.SetBy, now.SetAt, look.SettingsText(nowSet)
	}
	return e
}

// comeAndGo is a session that comes or goes; that it changes what it says is no event.
func comeAndGo(p keyspace.ParsedKey, c keyChange, come, gone string) *Event {
	e := &Event{Type: come, Queue: p.Queue}
	e.by(p.Session, "")
	switch {
	case c.now == nil:
		e.Type = gone
	case !c.created():
		return nil
	}
	if p.Kind == "sessions" && c.now != nil {
		var s look.Session
		_ = json.Unmarshal(c.now.Value, &s) // what cannot be read is left out
		e.Time = s.Opened
		if s.Host != "" {
			e.Detail = "on " + s.Host
		}
	}
	return e
}

// holderEvent is a lock or a leadership that changes hands.
func holderEvent(p keyspace.ParsedKey, c keyChange, noun, taken, free string) *Event {
	if p.Session != "" { // somebody who waits
		return nil
	}
	type holder struct {
		Owner  string    `json:"owner"`
		Since  time.Time `json:"since"`
		By     string    `json:"by"`
		Reason string    `json:"reason"`
	}
	var old, now holder
	_ = json.Unmarshal(c.old.GetValue(), &old) // what cannot be read counts as empty
	_ = json.Unmarshal(c.now.GetValue(), &now)
	e := &Event{Name: escape.Ref(noun, p.Name)}
	switch {
	case now.Owner != "" && now.Owner != old.Owner:
		e.Type, e.Time, e.Token = taken, now.Since, strconv.FormatInt(c.now.ModRevision, 10)
		e.by(now.Owner, "")
	case now.Owner == "" && old.Owner != "":
		e.Type = free
		e.by(old.Owner, "")
	default:
		return nil
	}
	if now.By != "" {
		e.Detail = strings.TrimSuffix("by force of "+now.By+": "+now.Reason, ": ")
	}
	return e
}
