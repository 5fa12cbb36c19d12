package workqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/job"
)

// booked is one claim in the book that a process keeps for its session.
type booked struct {
	nonce, job string
	state      claims.State
	// unread is the revision of a claim that the process cannot read, and knows by that.
	unread int64
}

// keepers are taken away one at a time, to see that each is needed.
type keepers struct {
	noBook   bool // a claim is forgotten whose answer is lost
	hasty    bool // the reconciler does not wait until a claim can arrive no more
	bySID    bool // it gives back whatever is the session's, whoever made it
	noRejoin bool // a worker leaves its queue once, whatever becomes of that
	noLease  bool // a session does not end with its process
	// noFarewell: a process leaves a session that others are on, whatever is in its book
	noFarewell bool
}

func (a *actor) entry(nonce string) *booked {
	if i := slices.IndexFunc(a.book, func(b booked) bool { return b.nonce == nonce }); i >= 0 {
		return &a.book[i]
	}
	return nil
}

// track enters a claim into the book.
func (a *actor) track(nonce, job string) {
	if a.entry(nonce) == nil {
		a.book = append(slices.Clip(slices.Clone(a.book)), booked{nonce: nonce, job: job})
	}
}

// moves tells the book what happens to a claim.
func (a *actor) moves(nonce string, ev claims.Event) {
	if a.entry(nonce) == nil {
		return
	}
	a.book = slices.Clone(a.book)
	e := a.entry(nonce)
	if e.state = e.state.After(ev); e.state == claims.Over {
		a.book = slices.DeleteFunc(a.book, func(b booked) bool { return b.nonce == nonce })
	}
}

// holds makes a claim the one that the process works on. It works on one at a time:
// another is left to the book.
func (a *actor) holds(h *hold) {
	if old := a.hold; old != nil && old.fence.Nonce != h.fence.Nonce {
		a.moves(old.fence.Nonce, claims.Deserted)
	}
	a.track(h.fence.Nonce, h.job)
	a.moves(h.fence.Nonce, claims.Made)
	a.hold = h
}

// ends is the end of the claim that the process works on.
func (a *actor) ends() {
	if a.hold != nil {
		a.moves(a.hold.fence.Nonce, claims.Closed)
		a.hold = nil
	}
}

// booking is what a request does to the book before it is sent.
func (p *play) booking(m *message) {
	a := &p.actors[m.who]
	switch {
	case (m.builder == "claim" || m.builder == "reclaim") && !p.lacks.noBook:
		a.track(m.n.Record.Nonce, m.job)
	case m.builder == "close" && m.verb != "reconcile":
		a.moves(m.fence.Nonce, claims.Closes)
	}
}

// fixed tells that nothing of a claim is on its way any more.
func (p *play) fixed(who int, nonce string) bool {
	of := func(m *message) bool {
		return m != nil && m.who == who && (m.fence.Nonce == nonce || m.n.Record != nil && m.n.Record.Nonce == nonce)
	}
	return p.lacks.hasty || !of(p.actors[who].flight) && !slices.ContainsFunc(p.late, of)
}

// settle is one step of the process's reconciler: it ends a claim that is left to it, or
// tells etcd whether the process serves the queue.
func (p *play) settle(who int) (string, error) {
	a := &p.actors[who]
	if a.crashed || !p.lives(a.sess) {
		return "", cannot("%s writes no more", a.name)
	}
	if what, done, err := p.settleRegistration(who); done || err != nil {
		return what, err
	}
	if a.old && a.reg.serving {
		p.leaveInbox(a, p.Txns) // it begins nothing of it
	}
	if p.lacks.bySID {
		p.bookStrays(a)
	}
	for _, e := range a.book {
		if e.state != claims.Stray || !p.fixed(who, e.nonce) {
			continue
		}
		m := &message{who: who, verb: "reconcile", job: e.job, home: p.homeOf(e.job), call: -1}
		switch over, err := p.giveBack(m, e); {
		case errors.Is(err, errCannot):
			continue // it is tried again, and changes nothing
		case err != nil:
			return "", err
		case over:
			a.moves(e.nonce, claims.Closed)
			return e.job + " is not ours", nil
		}
		what, err := p.hand(m)
		if err == nil {
			a.moves(e.nonce, claims.Closed)
		}
		return what, err
	}
	return "", cannot("nothing is left to %s", a.name)
}

// giveBack makes the request that gives a claim back, as Queue.giveBack does; over tells
// that there is none.
func (p *play) giveBack(m *message, e booked) (over bool, err error) {
	kv := p.lookup(m.q.Key(job.InJobs, m.id))
	if e.unread != 0 {
		return p.giveBackUnread(m, kv)
	}
	if kv == nil {
		return true, nil
	}
	r, err := claimIn(kv, e.nonce)
	switch {
	case err != nil:
		return false, cannot("%v", err)
	case r == nil:
		return true, nil
	}
	ev := p.event(job.VerbRelease, m)
	ev.Nonce, ev.Token, ev.Unbegun, ev.Err = "b"+e.nonce[1:], job.Token(kv.ModRevision), true, "stray"
	l := job.Snapshot{Record: r, Where: job.InJobs, Rev: kv.ModRevision}
	return false, p.sendClose(m, l, m.fenceOf(l), ev)
}

// bookStrays is a reconciler that goes by sessions: whatever is the session's, and is
// not worked on by this process, is a stray to it.
func (p *play) bookStrays(a *actor) {
	for i, h := range p.homes {
		kv := p.lookup(h.q.Key(job.InJobs, h.id))
		if kv == nil {
			continue
		}
		r, err := decodeOnce(kv.Value)
		if err == nil && r.Owner == a.sess.ID && !r.Assigned && (a.hold == nil || a.hold.fence.Nonce != r.Nonce) {
			a.track(r.Nonce, p.jobs[i])
			a.moves(r.Nonce, claims.Deserted)
		}
	}
}

// hand applies a request and its answer at once, which no call waits for.
func (p *play) hand(m *message) (string, error) {
	p.strip(m)
	was := *p
	resp, err := p.commit(m.txn)
	switch {
	case err != nil && strings.Contains(err.Error(), "lease not found"):
		return "refused: its lease is gone", nil
	case err != nil:
		return "", err
	case !resp.Succeeded:
		return "refused", p.answered(m, resp)
	}
	if p.real == nil {
		p.told = p.told.copy()
		if err := p.judge(m, &was, resp.Header.Revision); err != nil {
			return "", err
		}
		if err := p.consistent(); err != nil {
			return "", err
		}
	}
	return p.describe(m), p.answered(m, resp)
}

// desert leaves the claim that an actor works on to its book: a handler has returned, or
// its caller has gone.
func (p *play) desert(who int) error {
	a := &p.actors[who]
	if a.hold == nil || a.flight != nil || a.crashed {
		return cannot("%s works on nothing", a.name)
	}
	a.moves(a.hold.fence.Nonce, claims.Deserted)
	a.hold = nil
	return nil
}

// rests judges a world in which nothing happens any more by itself: what a live session
// has claimed is worked on by a process, no claim is left whose end is open, and a
// worker that has left its queue draws no jobs.
func (p *play) rests() error {
	for i, h := range p.homes {
		kv := p.lookup(h.q.Key(job.InJobs, h.id))
		if j := &p.told.jobs[i]; kv == nil || !j.claimed || j.garbled != "" || !p.lives(p.actors[j.owner].sess) || p.worked(kv) {
			continue
		}
		return violation("job %s stays claimed by the session of %s, and nobody works on it", p.jobs[i], p.actors[p.told.jobs[i].owner].name)
	}
	for i := range p.actors {
		a := &p.actors[i]
		if a.sess.ID == "" || !p.lives(a.sess) {
			continue
		}
		if !a.crashed {
			for _, e := range a.book {
				if e.state != claims.Held {
					return violation("a claim of %s on job %s stays %s", a.name, e.job, e.state)
				}
			}
		}
		if p.serves(p.Txns, a.sess.ID) != 0 && !slices.ContainsFunc(p.actors, func(o actor) bool { return o.sess == a.sess && !o.crashed && o.reg.serving }) {
			return violation("the session of %s stays registered, and no worker serves on it", a.name)
		}
	}
	return nil
}

// worked tells whether a process works on the claim that a record is, or will: a worker
// that is busy begins what it was assigned behind that.
func (p *play) worked(kv *mvccpb.KeyValue) bool {
	r, err := decodeOnce(kv.Value)
	return err != nil || slices.ContainsFunc(p.actors, func(a actor) bool {
		switch {
		case slices.Contains(a.script, r.Nonce):
			return true
		case a.crashed || a.hold == nil:
			return false
		}
		busy := a.sess.ID == r.Owner && r.Assigned && a.reg.serving && a.hold.job != r.ID && !a.old
		return busy || a.hold.fence.Nonce == r.Nonce && int64(a.hold.fence.Token) == kv.ModRevision
	})
}

// lapse is the end of a lease that is renewed no more: its processes are dead, or have
// seen that their session's key is gone.
func (p *play) lapse(who int) (string, error) {
	a := &p.actors[who]
	if a.lapsed() || p.lacks.noLease {
		return "", cannot("its lease has ended")
	}
	renewed := slices.ContainsFunc(p.actors, func(o actor) bool { return o.sess == a.sess && !o.crashed })
	if renewed && p.lives(a.sess) {
		return "", cannot("its lease is renewed")
	}
	p.endLease(a)
	return "", nil
}

func (a *actor) lapsed() bool { return a.sess.ID == "" || a.ended }

// endLease ends the lease of a session, for all processes that are on it.
func (p *play) endLease(a *actor) {
	p.revoke(a.lease)
	for i := range p.actors {
		if p.actors[i].sess == a.sess {
			p.actors[i].ended = true
		}
	}
}

// share puts a process on the session of another, as the commands of a script are.
func (p *play) share(who, session int) {
	a := &p.actors[who]
	p.revoke(a.lease)
	a.sess, a.lease = p.actors[session].sess, p.actors[session].lease
}

// stageDepart is the end of a process that was on a session with others: what it works on
// is the script's from then on, by its token. What is left to its book is ended first.
func stageDepart(p *play, words []string) (string, error) {
	a, err := p.named(words)
	switch {
	case err != nil || a.crashed || a.flight != nil:
		return "", cannot("it is gone, or waits for an answer")
	case !slices.ContainsFunc(p.actors, func(o actor) bool { return o.sess == a.sess && o.name != a.name }):
		return "", cannot("nobody else is on its session")
	}
	for _, e := range a.book {
		if e.state == claims.Stray && !p.lacks.noFarewell {
			return "", cannot("its book has job %s", e.job)
		}
	}
	if a.hold != nil {
		a.script = append(slices.Clone(a.script), a.hold.fence.Nonce)
	}
	a.crashed, a.hold, a.book = true, nil, nil
	return fmt.Sprint("with ", len(a.script), " claims"), nil
}

// deny is etcd's refusal of a request, for want of a right or of space, whatever the
// request says. After an earlier try it says nothing about that one.
func (p *play) deny(who int) (string, error) {
	a := &p.actors[who]
	m := a.flight
	if m == nil {
		return "", cannot("%s has nothing on its way", a.name)
	}
	p.spent.denied++
	unsure := a.unsure
	a.flight, a.unsure = nil, false
	switch {
	case unsure && m.builder == "progress":
		return "denied, and told: unknown", p.tell(m, toldUnknown)
	case unsure:
		a.flight, a.doubt = m, true
		return "denied, which says nothing", nil
	}
	p.notMade(m)
	return "denied", p.tell(m, toldRefused)
}

// learn reads what became of a closing, once no try of it can arrive any more.
func (p *play) learn(who int) (string, error) {
	a := &p.actors[who]
	m := a.flight
	if !a.doubt || slices.ContainsFunc(p.late, func(l *message) bool { return l.call == m.call }) {
		return "", cannot("%s is not in doubt, or a try is on its way yet", a.name)
	}
	a.flight, a.doubt = nil, false
	told := p.judgeEnd(m, true)
	return told.String(), p.tell(m, told)
}
