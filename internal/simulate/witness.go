package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// witness watches the trial's root and tells the chronicle what etcd did, in the
// order of its revisions.
type witness struct {
	root  string
	keys  keyspace.Keyspace
	naive string // prefix of the naive mode's jobs
	story *chronicle
	// lateOf is the lane owner's name of a dispatcher that is dead: what moves its
	// lanes from now on arrived late. Set with the story's mu held.
	lateOf string
	// leaving is set before the agents leave in order: leases that end from now on are
	// given back. Set with the story's mu held.
	leaving bool
	seen    chan struct{} // closed once the last key was seen
}

// lastKey is written when everything is over, so that the witness knows that it has
// seen everything.
func (w *witness) lastKey() string { return w.root + "over" }

// watch follows the root from a revision until it has seen the last key, or ctx
// ends.
func (w *witness) watch(ctx context.Context, admin *clientv3.Client, from int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range admin.Watch(ctx, w.root, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch the trial: %w", err)
		}
		now := time.Now()
		w.story.do(func() {
			for _, events := range byRevision(resp.Events) {
				w.note(events, now)
			}
		})
		for _, ev := range resp.Events {
			if string(ev.Kv.Key) == w.lastKey() {
				close(w.seen)
				return nil
			}
		}
	}
	return context.Cause(ctx)
}

// byRevision groups events that happened together.
func byRevision(events []*clientv3.Event) (groups [][]*clientv3.Event) {
	for i, ev := range events {
		if i == 0 || ev.Kv.ModRevision != events[i-1].Kv.ModRevision {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], ev)
	}
	return groups
}

// note takes in what happened at one revision.
func (w *witness) note(events []*clientv3.Event, at time.Time) {
	lateOwner, jobsMoved := "", 0
	for _, ev := range events {
		key := string(ev.Kv.Key)
		put := ev.Type == clientv3.EventTypePut
		if job, ok := strings.CutPrefix(key, w.naive); ok {
			w.noteNaive(job, ev.Kv, at)
			continue
		}
		p, ok := w.keys.Parse(key)
		switch {
		case !ok:
		case p.Kind == "sessions" && !put && !w.leaving:
			w.story.truth.leaseEnded(p.Session, at)
			w.moment(at, keyspace.IdentityOf(p.Session), "", leaseEnded)
		case p.Kind == "lanes" && put && w.lateOf != "" && keyspace.IdentityOf(p.Session) == w.lateOf:
			lateOwner = p.Session
		case p.Kind == "elections" && put && p.Session == "":
			w.noteLeader(ev.Kv, at)
		case p.Kind == "jobs" || p.Kind == "done" || p.Kind == "dead":
			jobsMoved++
			if put {
				w.noteJob(p, ev.Kv, at)
			}
		}
	}
	if lateOwner != "" {
		w.story.lateLanes[lateOwner]++
		w.story.lateWrote += jobsMoved
	}
}

func (w *witness) moment(at time.Time, agent, job string, what kind) {
	w.story.moments = append(w.story.moments, moment{at, agent, job, what})
}

// jobRecord is what the witness reads of a job's record.
type jobRecord struct {
	Owner    string              `json:"owner"`
	Outcome  string              `json:"outcome"`
	Attempts []workqueue.Attempt `json:"attempts"`
}

// noteJob takes in the put of a job's record, live or over.
func (w *witness) noteJob(p keyspace.ParsedKey, kv *mvccpb.KeyValue, at time.Time) {
	var r jobRecord
	if json.Unmarshal(kv.Value, &r) != nil {
		return // it cannot count for anybody, so the job shows as unfinished
	}
	switch {
	case p.Kind == "dead":
		w.story.truth.died(p.ID)
	case p.Kind == "done" && r.Outcome == "completed" && len(r.Attempts) > 0:
		w.accepted(p.ID, r.Attempts[len(r.Attempts)-1].Token.String(), at)
	case p.Kind == "jobs" && r.Owner == "":
		w.story.truth.opened(p.ID)
	case p.Kind == "jobs":
		w.owned(p.ID, r.Owner, coord.Token(kv.ModRevision).String(), at)
	}
}

// noteNaive takes in the put of a naive job.
func (w *witness) noteNaive(job string, kv *mvccpb.KeyValue, at time.Time) {
	var j naiveJob
	if json.Unmarshal(kv.Value, &j) != nil {
		return
	}
	switch j.State {
	case naiveTaken:
		w.owned(job, j.Agent, j.token(), at)
	case naiveDone:
		w.accepted(job, j.token(), at)
	}
}

func (w *witness) owned(job, owner, token string, at time.Time) {
	w.moment(at, keyspace.IdentityOf(owner), job, claimed)
	if t := w.story.truth.claimed(job, owner, token, at); t != nil {
		w.moment(at, keyspace.IdentityOf(owner), job, tookOver)
	}
}

func (w *witness) accepted(job, token string, at time.Time) {
	w.story.truth.saved(job, token, at)
	if j := w.story.truth.jobs[job]; j == nil || j.accepted < 2 {
		return
	}
	if r := w.story.runOf(job, token); r != nil {
		r.duplicate = true
	}
}

// noteLeader takes in who dispatches.
func (w *witness) noteLeader(kv *mvccpb.KeyValue, at time.Time) {
	var leader struct {
		Owner string `json:"owner"`
	}
	if json.Unmarshal(kv.Value, &leader) != nil || leader.Owner == "" {
		return
	}
	if n := len(w.story.leaders); n > 0 && w.story.leaders[n-1] == leader.Owner {
		return
	}
	w.story.leaders = append(w.story.leaders, leader.Owner)
	w.moment(at, keyspace.IdentityOf(leader.Owner), "", led)
}
