package workqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/queue"
)

// errCannot tells that an actor cannot do what a line says: the explorer goes on, a
// scenario shows it.
var errCannot = errors.New("cannot")

func cannot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCannot, fmt.Sprintf(format, args...))
}

// send makes an actor's next request from what it reads now, and puts it on its way.
func (p *play) send(verb string, who int, args []string) error {
	a := &p.actors[who]
	switch {
	case a.crashed:
		return cannot("%s is dead", a.name)
	case a.flight != nil:
		return cannot("%s waits for an answer", a.name)
	}
	m := &message{call: who*16 + a.calls, who: who, verb: verb, job: "x"}
	if len(args) > 0 {
		m.job, args = args[0], args[1:]
	}
	if p.index(m.job) < 0 {
		return cannot("there is no job %s", m.job)
	}
	m.home = p.homeOf(m.job)
	m.repair.breaking = slices.Contains(args, "breaking")
	build, ok := sends[verb]
	if !ok {
		return cannot("nobody knows how to %s", verb)
	}
	if err := build(p, m, args); err != nil {
		return err
	}
	p.strip(m)
	p.booking(m)
	a.calls++
	a.flight, a.unsure = m, false
	for len(p.calls) <= m.call {
		p.calls = append(p.calls, outcome{})
	}
	return nil
}

// sends are the verbs, each with the code that makes its request.
var sends = map[string]sender{}

type sender = func(p *play, m *message, args []string) error

func init() {
	maps.Copy(sends, map[string]sender{
		"enqueue":    sendEnqueue,
		"claim":      func(p *play, m *message, _ []string) error { return sendClaim(p, m, m.who) },
		"reclaim":    func(p *play, m *message, _ []string) error { return sendReclaim(p, m, m.who) },
		"assign":     sendAssign,
		"complete":   closes(job.VerbComplete),
		"fail":       closes(job.VerbFail),
		"snooze":     closes(job.VerbSnooze),
		"release":    closes(job.VerbRelease),
		"quit":       closes(job.VerbCancel),
		"checkpoint": sendCheckpoint,
		"register":   sendRegister,
		"leave":      sendLeave,
		"return":     sendReturn,
		"reconcile":  sendReconcile,
		"cancel":     intervenes(job.VerbCancel),
		"requeue":    intervenes(job.VerbRequeue),
		"break":      intervenes(job.VerbBreak),
		"bury":       intervenes(job.VerbBury),
		"pause":      configures(func(c *job.QueueConfig) { c.Paused = true }),
		"resume":     configures(func(c *job.QueueConfig) { c.Paused = false }),
		"dispatch":   configures(func(c *job.QueueConfig) { c.Mode = ModeDispatch }),
	})
}

// event is one as its sender makes it. Time stands still: nothing here may hang on it.
func (p *play) event(v job.Verb, m *message) job.Event {
	return job.Event{Verb: v, Now: jobtest.Now, Nonce: p.fresh(m.call), Delay: func(int) time.Duration { return 0 }}
}

// sendEnqueue is a blind first try, and, after it was told what is there, the second.
func sendEnqueue(p *play, m *message, args []string) error {
	params := p.perJob
	params.ID, params.Payload = m.id, payloadNamed(args)
	m.payload = string(params.Payload)
	e := &enqueueing{q: &Queue{core: &queue.Core{Txns: m.q}}, p: params, record: job.New(params.description(), 1, jobtest.Now)}
	if slices.Contains(args, "over") {
		var err error
		get := func(where job.Place) int64 { return p.modRev(m.q.Key(where, m.id)) }
		if m.old, err = e.judge(context.Background(), nil, p.lookup(m.q.Key(job.InDone, m.id)), p.lookup(m.q.Key(job.InDead, m.id))); err != nil {
			return cannot("%v", err)
		}
		if m.old == (job.EnqueueSeen{}) || get(job.InJobs) != 0 {
			return cannot("nothing is left of job %s", m.job)
		}
		m.seen, _ = p.find(m.job)
	}
	e.record.Nonce, e.record.Born = p.fresh(m.call), p.bornOf(m)
	m.builder, m.n = "enqueue", job.Next{Record: e.record, Where: job.InJobs}
	var err error
	m.txn, err = m.q.Enqueue(e.record, params.Payload, m.old)
	return err
}

// bornOf is what the job of a call is known by for its whole life.
func (p *play) bornOf(m *message) string { return fmt.Sprintf("born%d", p.epoch+m.call) }

// read reads a job that is there.
func (p *play) read(m *message) (err error) {
	var ok bool
	if m.seen, ok = p.find(m.job); !ok {
		return cannot("there is no job %s", m.job)
	}
	return nil
}

func sendClaim(p *play, m *message, to int) error {
	if err := p.read(m); err != nil {
		return err
	}
	a := p.actors[to]
	m.to, m.toWho, m.builder = a.sess, to, "claim"
	e := p.event(job.VerbClaim, m)
	e.Owner, e.OwnerRev, e.Assigned = a.sess.ID, a.sess.Rev, m.verb == "assign"
	var err error
	if m.n, err = job.Transition(m.seen.Record, m.seen.Where, e); err != nil {
		return cannot("%v", err)
	}
	conf, rev := p.conf(m.q)
	if m.confRev = rev; conf.Paused {
		return cannot("the queue is paused")
	}
	m.txn, err = m.q.Claim(m.seen, m.n, m.to, m.confRev)
	return err
}

// sendReclaim believes that the owner is gone, whatever is true: mirrors lag.
func sendReclaim(p *play, m *message, to int) error {
	if err := p.read(m); err != nil {
		return err
	}
	a := p.actors[to]
	if !m.seen.Record.Claimed() || m.seen.Record.Owner == a.sess.ID {
		return cannot("%s is nobody else's", m.job)
	}
	m.to, m.toWho, m.builder = a.sess, to, "reclaim"
	progress := p.modRev(m.q.Keys.Progress(m.id))
	e := p.event(job.VerbReclaim, m)
	// As judgeLoss has it.
	e.Token, e.Counted = job.Token(m.seen.Rev), progress <= m.seen.Rev
	e.Owner, e.OwnerRev, e.Assigned = a.sess.ID, a.sess.Rev, m.verb == "assign"
	m.counted = e.Counted
	var err error
	if m.n, err = job.Transition(m.seen.Record, m.seen.Where, e); err != nil {
		return cannot("%v", err)
	}
	conf, rev := p.conf(m.q)
	if m.confRev = rev; conf.Paused {
		return cannot("the queue is paused")
	}
	m.txn, err = m.q.Reclaim(m.seen, m.n, m.to, m.confRev, progress)
	return err
}

// sendAssign is a dispatcher's claim, or reclaim, for a worker.
func sendAssign(p *play, m *message, args []string) error {
	d := p.actors[m.who]
	if d.term == (etcdkv.Fence{}) || len(args) != 1 {
		return cannot("%s does not lead, or no worker is named", d.name)
	}
	to := p.names[args[0]]
	m.regRev = p.serves(m.q, p.actors[to].sess.ID)
	if m.regRev == 0 {
		return cannot("%s is not registered", args[0])
	}
	if err := p.read(m); err != nil {
		return err
	}
	a := job.Assignment{Orphan: m.seen.Record.Claimed(), Registered: m.regRev}
	send := sendClaim
	if a.Orphan {
		send = sendReclaim
	}
	if err := send(p, m, to); err != nil {
		return err
	}
	a.Snapshot, a.To, a.Config, a.Progress = m.seen, m.to, m.confRev, p.modRev(m.q.Keys.Progress(m.id))
	m.builder, m.fence = "assign", d.term
	var err error
	m.txn, err = m.q.Assign(a, m.n, d.term)
	return err
}

// closes ends a worker's claim.
func closes(v job.Verb) func(p *play, m *message, args []string) error {
	return func(p *play, m *message, args []string) error {
		h := p.actors[m.who].hold
		if h == nil || h.job != m.job {
			return cannot("%s does not hold %s", p.actors[m.who].name, m.job)
		}
		e := p.event(v, m)
		e.Token, e.Result, e.Err = job.Token(h.fence.Token), []byte("1"), ""
		if v == job.VerbFail {
			e.Err = "failed"
		}
		m.forGood = slices.Contains(args, "for-good")
		e.Permanent = m.forGood
		at := h.at
		at.HasProgress = h.noted != 0 || h.seq > 0
		if err := p.sendClose(m, at, h.fence, e); err != nil {
			return err
		}
		if len(args) == 2 && args[0] == "with" {
			return p.joinJob(m, args[1])
		}
		if len(args) == 2 && args[0] == "under" {
			return p.joinTerm(m, args[1])
		}
		return nil
	}
}

func (p *play) sendClose(m *message, at job.Snapshot, f etcdkv.Fence, e job.Event) error {
	n, err := job.Transition(at.Record, at.Where, e)
	if err != nil {
		return cannot("%v", err)
	}
	var lease clientv3.LeaseID
	if n.Where == job.InDone {
		lease = clientv3.LeaseID(p.retentionLease())
	}
	m.builder, m.seen, m.n, m.fence = "close", at, n, f
	m.txn, err = m.q.Close(f, at, n, lease)
	return err
}

// joinJob enqueues another job in the same Txn, as CompleteWith does.
func (p *play) joinJob(m *message, id string) error {
	q := p.queue(m)
	_, _, ops, err := q.EnqueueOps(Params{ID: id})
	if err != nil {
		return err
	}
	for i, op := range ops { // nonces must not be random
		r, err := job.Decode(op.ValueBytes())
		if err != nil {
			return err
		}
		r.Nonce, r.Born, r.EnqueuedAt = p.fresh(m.call+0x100), p.bornOf(m), job.Stamp(jobtest.Now)
		r.Seq = 1
		value, err := r.Encode()
		if err != nil {
			return err
		}
		ops[i] = clientv3.OpPut(string(op.KeyBytes()), string(value))
	}
	joined, err := job.Joinable(p.Space, nil, ops)
	m.with = id
	joined.Join(&m.txn, p.Space)
	return err
}

// joinTerm completes only while a dispatcher leads, as CompleteJoined does.
func (p *play) joinTerm(m *message, dispatcher string) error {
	d, err := p.named([]string{dispatcher})
	if err != nil || d.term == (etcdkv.Fence{}) {
		return cannot("%s has never led", dispatcher)
	}
	m.under = d.term
	joined, err := job.Joinable(p.Space, []etcdkv.Fence{m.under}, nil)
	joined.Join(&m.txn, p.Space)
	return err
}

// sendReconcile puts on its way what settle does at once: the process gives back a claim
// that is left to its book.
func sendReconcile(p *play, m *message, _ []string) error {
	a := &p.actors[m.who]
	for _, e := range a.book {
		if e.job != m.job || e.state != claims.Stray || !p.fixed(m.who, e.nonce) {
			continue
		}
		over, err := p.giveBack(m, e)
		if over {
			a.moves(e.nonce, claims.Closed)
			err = cannot("%s is not claimed by %s any more", m.job, a.name)
		}
		return err
	}
	return cannot("%s is no stray of %s", m.job, a.name)
}

// queue is the one of the message, as a process has it that does not talk to etcd.
func (p *play) queue(m *message) *Queue {
	return &Queue{core: &queue.Core{Txns: m.q}, cfg: Config{}.withDefaults()}
}

func (h home) fenceOf(l job.Snapshot) etcdkv.Fence {
	return etcdkv.Fence{Key: h.q.Key(job.InJobs, l.Record.ID), Token: l.Rev, Nonce: l.Record.Nonce}
}

func sendCheckpoint(p *play, m *message, _ []string) error {
	h := p.actors[m.who].hold
	if h == nil || h.job != m.job {
		return cannot("%s does not hold %s", p.actors[m.who].name, m.job)
	}
	m.builder, m.seen, m.fence, m.seq = "progress", h.at, h.fence, h.seq+1
	nonce := p.fresh(m.call)
	value, err := job.EncodeJSON(job.Note{Nonce: nonce, Token: job.Token(h.fence.Token), At: job.Stamp(jobtest.Now), Checkpoint: []byte(fmt.Sprint(m.seq))})
	if err != nil {
		return err
	}
	m.txn = m.q.Progress(h.fence, m.id, string(value), h.noted)
	asked := *h
	asked.seq = m.seq // there may be one from now on
	p.actors[m.who].hold = &asked
	return nil
}

func intervenes(v job.Verb) func(p *play, m *message, args []string) error {
	return func(p *play, m *message, _ []string) error {
		if err := p.read(m); err != nil {
			return err
		}
		if v == job.VerbRequeue && m.seen.Where == job.InDone && m.seen.Record.Beside > 0 {
			return cannot("the payload of %s is gone", m.job)
		}
		e := p.byHand(v, m)
		var err error
		if m.n, err = job.Transition(m.seen.Record, m.seen.Where, e); err != nil {
			return cannot("%v", err)
		}
		var lease clientv3.LeaseID
		if m.n.Where == job.InDone {
			lease = clientv3.LeaseID(p.retentionLease())
		}
		m.builder = "intervene"
		m.txn, err = m.q.Intervene(m.seen, m.n, lease)
		return err
	}
}

func configures(change func(*job.QueueConfig)) func(p *play, m *message, args []string) error {
	return func(p *play, m *message, _ []string) error {
		m.builder = "configure"
		m.config, m.confRev = p.conf(m.q)
		change(&m.config)
		var err error
		m.txn, err = m.q.Configure(m.config, m.confRev)
		return err
	}
}
