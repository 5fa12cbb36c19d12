package workqueue

import (
	"fmt"
	"slices"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
)

// spec is what must be so in etcd, kept beside it without looking into records: from
// which requests were applied, in which order. It knows nothing of transition.
type spec struct {
	jobs   []jobSpec
	leader string          // nonce of the term that counts
	config job.QueueConfig // as the last change wanted it
}

// jobSpec is one id.
type jobSpec struct {
	where     job.Place
	exists    bool
	claimed   bool
	assigned  bool
	owner     int   // actor
	token     int64 // of the last claim
	attempt   int
	failures  int
	losses    int
	accepted  int // results, since it was enqueued or requeued
	trail     []trailEntry
	noteToken int64
	noteSeq   int
	born      string
	payload   string
	garbled   string // what somebody wrote by hand in its place, and nobody can read
	leftovers bool   // beside its dead letter lies what was kept before its record was garbled
	littered  bool   // it is dead, and somebody wrote what nobody can read among the live
}

// trailEntry is one way out of a claim, or an intervention.
type trailEntry struct {
	owner   int // actor, where there was a claim
	by      int // actor, where somebody intervened; else -1
	claim   bool
	token   int64
	outcome string
}

func (s spec) copy() spec {
	s.jobs = slices.Clone(s.jobs)
	return s
}

func (p *play) index(id string) int { return slices.Index(p.jobs, id) }

// end takes the claim away.
func (j *jobSpec) end(outcome string) {
	j.log(trailEntry{owner: j.owner, by: -1, claim: true, token: j.token, outcome: outcome})
	j.claimed, j.assigned, j.owner = false, false, 0
}

// finish moves a job to the done ones: what lies beside it goes.
func (j *jobSpec) finish() { j.where, j.noteToken, j.noteSeq = job.InDone, 0, 0 }

func (j *jobSpec) log(e trailEntry) { j.trail = append(slices.Clip(slices.Clone(j.trail)), e) }

// judge holds what was applied against what may happen, and moves the spec on.
func (p *play) judge(m *message, was *play, rev int64) error {
	j := &p.told.jobs[p.index(m.job)]
	who := p.actors[m.who].name
	if m.builder != "salvage" {
		if err := p.handwritten(j, m, was); err != nil {
			return err
		}
	}
	switch m.builder {
	case "enqueue":
		return p.judgeEnqueue(j, m)
	case "claim", "reclaim", "assign":
		return p.judgeClaim(j, m, was, rev)
	case "register":
		return p.judgeRegister(m, was)
	case "returnUnread", "close":
		if m.verb == "reconcile" && j.claimed && j.owner != m.who && !j.assigned {
			return violation("%s gives back job %s, which %s has claimed", who, m.job, p.actors[j.owner].name)
		}
		if !j.exists || !j.claimed || int64(m.fence.Token) != j.token || !p.ownedAsSeen(j, m) {
			return violation("%s: %s of job %s was accepted under token %d, which is superseded", who, m.verb, m.job, m.fence.Token)
		}
		if payloadOf(m.seen.Record) != j.payload {
			return violation("%s: %s of job %s was accepted, which has another payload by now", who, m.verb, m.job)
		}
		if term := m.under.Nonce + fmt.Sprint(m.under.Token); m.under != (etcdkv.Fence{}) && term != p.told.leader {
			return violation("%s: %s of job %s was accepted under term %s, which is over", who, m.verb, m.job, term)
		}
		if m.with != "" {
			with := &message{who: m.who, verb: "enqueue", job: m.with, n: job.Next{Record: &job.Record{Born: p.bornOf(m)}}}
			if err := p.judgeEnqueue(&p.told.jobs[p.index(m.with)], with); err != nil {
				return err
			}
		}
		return j.close(m, p)
	case "progress":
		if !j.claimed || int64(m.fence.Token) != j.token || !p.ownedAsSeen(j, m) {
			return violation("%s: a checkpoint of job %s was accepted under token %d, which is superseded", who, m.job, m.fence.Token)
		}
		if j.noteToken == j.token && m.seq <= j.noteSeq {
			return violation("%s: checkpoint %d of job %s overwrites checkpoint %d", who, m.seq, m.job, j.noteSeq)
		}
		j.noteToken, j.noteSeq = j.token, m.seq
		return nil
	case "intervene":
		return j.intervene(m, p)
	case "configure":
		if was, _ := was.conf(m.q); p.told.config.Paused != was.Paused || m.seenOther(was) {
			return violation("%s: a change of the config that was made meanwhile is undone", who)
		}
		p.told.config = m.config
		return nil
	}
	if slices.Contains(repairs, m.builder) {
		return p.judgeRepair(j, m, was)
	}
	return fmt.Errorf("nobody judges %s", m.builder)
}

// seenOther tells whether the change was made of another config than is there.
func (m *message) seenOther(now job.QueueConfig) bool {
	was := m.config
	switch m.verb {
	case "pause", "resume":
		was.Paused = now.Paused
	case "dispatch":
		was.Mode = now.Mode
	}
	return was.Paused != now.Paused || was.Mode != now.Mode
}

// ownedAsSeen tells whether a closing request ends the claim of the session that has it.
func (p *play) ownedAsSeen(j *jobSpec, m *message) bool {
	return p.actors[j.owner].sess.ID == m.seen.Record.Owner
}

func (p *play) judgeEnqueue(j *jobSpec, m *message) error {
	who := p.actors[m.who].name
	switch {
	case j.exists && j.where == job.InJobs:
		return violation("%s: enqueue overwrites the live job %s", who, m.job)
	case j.exists && (m.seen.Record == nil || j.where != m.seen.Where):
		return violation("%s: enqueue of job %s does not know that it is there already", who, m.job)
	}
	*j = jobSpec{exists: true, attempt: j.attempt, trail: j.trail, token: j.token, born: m.n.Record.Born, payload: m.payload}
	return nil
}

func (p *play) judgeClaim(j *jobSpec, m *message, was *play, rev int64) error {
	who := p.actors[m.who].name
	conf, _ := was.conf(m.q)
	switch {
	case !j.exists || j.where != job.InJobs:
		return violation("%s: job %s is claimed although it is over", who, m.job)
	case !was.lives(m.to):
		return violation("%s: job %s is claimed for a session that has ended", who, m.job)
	case conf.Paused:
		return violation("%s: job %s is claimed from a paused queue", who, m.job)
	case m.seen.Record.Claimed() != j.claimed:
		return violation("%s: job %s is claimed although it was claimed, or given back, meanwhile", who, m.job)
	case m.verb == "assign" && m.fence.Nonce+fmt.Sprint(m.fence.Token) != p.told.leader:
		return violation("%s: job %s is assigned by a dispatcher that was deposed", who, m.job)
	case m.verb == "assign" && was.modRev(m.q.Keys.Worker(m.to.ID)) != m.regRev:
		return violation("%s: job %s is assigned to a worker that has left, or takes fewer jobs", who, m.job)
	}
	if j.claimed {
		if next, err := p.judgeReclaim(j, m, was); err != nil || next {
			return err
		}
	}
	j.claimed, j.owner, j.token, j.assigned = true, m.toWho, rev, m.verb == "assign"
	j.attempt++
	return nil
}

// judgeReclaim judges the loss; true means that the job was put back or buried.
func (p *play) judgeReclaim(j *jobSpec, m *message, was *play) (over bool, err error) {
	who := p.actors[m.who].name
	if was.lives(p.actors[j.owner].sess) {
		return true, violation("%s: job %s is taken from %s, which lives", who, m.job, p.actors[j.owner].name)
	}
	if moved := was.modRev(m.q.Keys.Progress(m.id)) > j.token; m.counted == moved {
		return true, violation("%s: the loss of job %s counts: %v, although a checkpoint was kept since its claim: %v", who, m.job, m.counted, moved)
	}
	if m.counted {
		j.losses++
	}
	j.end(job.OutcomeLost)
	switch {
	case m.counted && j.losses >= p.maxLosses() || p.perJob.AtMostOnce:
		j.where = job.InDead
	case m.counted && j.losses > 1:
	default:
		return false, nil
	}
	return true, nil
}

func (p *play) maxLosses() int {
	if p.perJob.MaxLosses > 0 {
		return p.perJob.MaxLosses
	}
	return 3
}

func (p *play) maxAttempts() int {
	if p.perJob.MaxAttempts > 0 {
		return p.perJob.MaxAttempts
	}
	return 5
}

// close is what a closing by the owner must lead to.
func (j *jobSpec) close(m *message, p *play) error {
	switch m.verb {
	case "complete":
		if j.accepted++; j.accepted > 1 {
			return violation("job %s has %d accepted results", m.job, j.accepted)
		}
		j.end(job.OutcomeCompleted)
		j.finish()
	case "fail":
		j.end(job.OutcomeFailed)
		j.failures++
		j.losses = 0
		if m.forGood || j.failures >= p.maxAttempts() {
			j.where = job.InDead
		}
	case "snooze":
		j.end(job.OutcomeSnoozed)
		j.losses = 0
	case "quit":
		j.end(job.OutcomeCancelled)
		j.finish()
	default:
		j.end(job.OutcomeReleased)
	}
	if p.perJob.AtMostOnce && j.where == job.InJobs {
		j.where = job.InDead
	}
	return nil
}

// intervene is what somebody's intervention must lead to: on what he saw.
func (j *jobSpec) intervene(m *message, p *play) error {
	if !j.exists || j.where != m.seen.Where || j.claimed != m.seen.Record.Claimed() || j.claimed && int64(m.seen.Rev) != j.token {
		return violation("%s: %s of job %s is applied to another state than was seen", p.actors[m.who].name, m.verb, m.job)
	}
	none := trailEntry{by: m.who}
	switch m.verb {
	case "cancel":
		j.intervened(m, job.OutcomeCancelled)
		j.finish()
	case "bury":
		none.outcome = job.OutcomeBuried
		j.log(none)
		j.where = job.InDead
	case "break":
		j.intervened(m, job.OutcomeBroken)
		if p.perJob.AtMostOnce {
			j.where = job.InDead
		}
	case "requeue":
		none.outcome = job.OutcomeRequeued
		j.log(none)
		j.where, j.failures, j.losses, j.accepted = job.InJobs, 0, 0, 0
		if j.leftovers {
			j.leftovers, j.noteToken, j.noteSeq = false, 0, 0
		}
	}
	return nil
}

// consistent holds what is in etcd against the spec: each job is in exactly one
// place, and its record says exactly what happened to it.
func (p *play) consistent() error {
	for i, id := range p.jobs {
		j := &p.told.jobs[i]
		h := p.homes[i]
		for where := job.InJobs; where <= job.InDead; where++ {
			want := j.exists && j.where == where || j.littered && where == job.InJobs
			if there := p.lookup(h.q.Key(where, h.id)) != nil; there != want {
				return violation("job %s is in %s: %v", id, [...]string{"jobs", "done", "dead"}[where], there)
			}
		}
		if j.garbled != "" || j.littered {
			continue
		}
		if err := p.inboxes(j, h, id); err != nil {
			return err
		}
		if err := p.besideIt(j, h, id); err != nil {
			return err
		}
		if !j.exists {
			continue
		}
		if err := j.matches(p, h, id); err != nil {
			return err
		}
	}
	return nil
}

// inboxes holds the inboxes against the claims.
func (p *play) inboxes(j *jobSpec, h home, id string) error {
	for _, a := range p.actors {
		want := j.exists && j.claimed && j.assigned && p.actors[j.owner].sess == a.sess
		if got := p.lookup(h.q.Keys.Assigned(a.sess.ID, h.id)) != nil; got != want {
			return violation("job %s is in the inbox of %s: %v", id, a.name, got)
		}
	}
	return nil
}

func (j *jobSpec) matches(p *play, h home, id string) error {
	kv := p.lookup(h.q.Key(j.where, h.id))
	r, err := decodeOnce(kv.Value)
	if err != nil {
		return violation("job %s: %v", id, err)
	}
	owner := ""
	if j.claimed {
		owner = p.actors[j.owner].sess.ID
	}
	switch {
	case r.Owner != owner:
		return violation("job %s is owned by %q in its record, by %q in truth", id, r.Owner, owner)
	case j.claimed && kv.ModRevision != j.token:
		return violation("job %s is at revision %d under the claim of token %d", id, kv.ModRevision, j.token)
	case r.Attempt != j.attempt || r.Failures != j.failures || r.Losses != j.losses:
		return violation("job %s: its record counts %d attempts, %d failures, %d losses; there were %d, %d, %d", id, r.Attempt, r.Failures, r.Losses, j.attempt, j.failures, j.losses)
	case r.LogTotal != len(j.trail):
		return violation("job %s: its trail has %d entries, it had %d ends", id, r.LogTotal, len(j.trail))
	case j.where == job.InJobs && kv.Lease != 0:
		return violation("job %s hangs on a lease", id)
	case r.Born != j.born:
		return violation("job %s is another job than was enqueued", id)
	case payloadOf(r) != j.payload:
		return violation("job %s has another payload than it was given", id)
	}
	for i, a := range r.Attempts {
		if len(r.Attempts) != len(j.trail) {
			break // neighbours were collapsed
		}
		if got, want := trailText(a), p.trailText(j.trail[i]); got != want {
			return violation("job %s: entry %d of its trail says %q, in truth %q", id, i, got, want)
		}
	}
	return nil
}

func trailText(a job.Attempt) string {
	text := a.Outcome
	if a.Owner != "" {
		text += fmt.Sprintf(" %d of %s", a.Token, a.Owner)
	}
	return text + " " + a.Actor
}

func (p *play) trailText(e trailEntry) string {
	text := e.outcome
	if e.claim {
		text += fmt.Sprintf(" %d of %s", e.token, p.actors[e.owner].sess.ID)
	}
	if e.by >= 0 {
		return text + " " + p.actors[e.by].name
	}
	return text + " "
}
