package workqueue

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// registered is a worker's registration, as its process knows it.
type registered struct {
	serving bool // its worker runs
	leaving bool // it is left to the book
	left    bool // etcd has the tombstone
	sure    bool // etcd is known to have what was written last
	rev     int64
	nonces  []string // of writes whose outcome was not read
	tries   int
}

// sendRegister puts a registration on its way: a worker begins to serve, or says again
// what it is not sure of.
func sendRegister(p *play, m *message, _ []string) error {
	r := &p.actors[m.who].reg
	switch {
	case r.leaving && !r.left:
		return cannot("the worker before it is leaving yet")
	case r.serving && r.sure:
		return cannot("it is registered")
	case !r.serving:
		*r = registered{serving: true, tries: r.tries}
	}
	return p.sendRegistration(m, false)
}

// sendLeave puts the tombstone on its way.
func sendLeave(p *play, m *message, _ []string) error {
	r := &p.actors[m.who].reg
	if r.left || !r.serving && !r.leaving {
		return cannot("it does not serve the queue")
	}
	r.serving, r.leaving = false, true
	return p.sendRegistration(m, true)
}

// sendRegistration makes the next write of a registration, as registration.put does.
func (p *play) sendRegistration(m *message, left bool) error {
	a := &p.actors[m.who]
	nonce := fmt.Sprintf("%016x", 0x900000+m.who*0x100+a.reg.tries)
	a.reg.tries++
	a.reg.nonces = append(slices.Clone(a.reg.nonces), nonce)
	w := job.WorkerRecord{Nonce: nonce, Left: left}
	if !left {
		w.Concurrency = 1
	}
	value, err := job.EncodeJSON(w)
	m.builder, m.to, m.regRev, m.forGood = "register", a.sess, a.reg.rev, left
	m.txn = m.q.Register(a.sess, clientv3.LeaseID(a.lease), a.reg.rev, string(value))
	a.reg.sure = false
	return err
}

// answered is the answer to a write of a registration.
func (p *play) answered(m *message, resp *clientv3.TxnResponse) error {
	if m.builder != "register" {
		return nil
	}
	a := &p.actors[m.who]
	r := &a.reg
	if resp.Succeeded {
		r.rev, r.nonces, r.sure = resp.Header.Revision, nil, true
		if m.forGood {
			r.left = true
			p.leaveInbox(a, m.q)
		}
		return nil
	}
	got := func(i int) *mvccpb.KeyValue {
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
			return kvs[0]
		}
		return nil
	}
	kv := got(0)
	switch {
	case got(1) == nil:
		*r = registered{tries: r.tries} // its session is over
	case r.rev == 0 && !(&registration{nonces: r.nonces}).mayFollow(kv):
		*r = registered{tries: r.tries} // another process serves the queue on it
	default:
		r.rev = 0
		if kv != nil {
			r.rev = kv.ModRevision
		}
	}
	return nil
}

// leaveInbox leaves to the book what was assigned to a worker that has left, and that it
// does not work on.
func (p *play) leaveInbox(a *actor, q job.Txns) {
	for i, h := range p.homes {
		if h.q != q {
			continue
		}
		if kv := p.lookup(h.q.Keys.Assigned(a.sess.ID, h.id)); kv != nil {
			p.bookEntry(a, p.jobs[i], kv)
		}
	}
}

// bookEntry leaves an inbox entry that no handler works to the book, as returnAssigned
// does.
func (p *play) bookEntry(a *actor, job string, kv *mvccpb.KeyValue) {
	nonce := keyspace.NonceOf(kv.Value)
	switch {
	case a.old:
		name := fmt.Sprintf("%s@%d", job, kv.ModRevision)
		a.track(name, job)
		a.moves(name, claims.Deserted)
		if e := a.entry(name); e != nil {
			e.unread = kv.ModRevision
		}
	case a.hold == nil || a.hold.fence.Nonce != nonce:
		a.track(nonce, job)
		a.moves(nonce, claims.Deserted)
	}
}

// settleRegistration is one try of the book, or of the worker's loop, to make etcd know
// whether the worker serves its queue.
func (p *play) settleRegistration(who int) (what string, done bool, err error) {
	a := &p.actors[who]
	m := &message{who: who, verb: "register", job: "x", home: p.homeOf("x"), call: -1}
	gone := p.lookup(m.q.Keys.Worker(a.sess.ID)) == nil
	leave := a.reg.leaving && !a.reg.left && !p.lacks.noRejoin
	if a.flight != nil && a.flight.builder == "register" || !leave && !(a.reg.serving && (!a.reg.sure || gone)) {
		return "", false, nil
	}
	if err := p.sendRegistration(m, leave); err != nil {
		return "", false, err
	}
	what, err = p.hand(m)
	return what, true, err
}

// judgeRegister holds a registration against what may happen.
func (p *play) judgeRegister(m *message, was *play) error {
	a := &was.actors[m.who]
	switch {
	case !was.lives(m.to):
		return violation("%s is registered although its session has ended", a.name)
	case a.reg.left && !m.forGood:
		return violation("%s is registered again, behind its leaving", a.name)
	}
	return nil
}

// stageRegister makes a worker serve the queue, at once.
func stageRegister(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || !p.lives(a.sess) {
		return "", cannot("it has no session")
	}
	p.spent.hands++
	if !a.reg.serving {
		a.reg = registered{serving: true, tries: a.reg.tries}
	}
	_, _, err = p.settleRegistration(p.names[words[0]])
	return "", err
}

// stageLeave makes a worker leave the queue, at once.
func stageLeave(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || p.serves(p.Txns, a.sess.ID) == 0 || !a.reg.serving {
		return "", cannot("it is not registered")
	}
	p.spent.left++
	a.reg.serving, a.reg.leaving = false, true
	_, _, err = p.settleRegistration(p.names[words[0]])
	return "", err
}

// sendReturn gives back what a dispatcher assigned to a worker whose program cannot read
// the job's record: the book's request, on its way.
func sendReturn(p *play, m *message, _ []string) error {
	a := &p.actors[m.who]
	kv := p.lookup(m.q.Key(job.InJobs, m.id))
	if !a.old {
		return cannot("%s can read it", a.name)
	}
	if over, err := p.giveBackUnread(m, kv); over || err != nil {
		return cannot("%s has nothing to give back: %v", a.name, err)
	}
	return nil
}

// giveBackUnread makes the request, as Queue.giveBackUnread does; over tells that there
// is nothing to give back.
func (p *play) giveBackUnread(m *message, kv *mvccpb.KeyValue) (over bool, err error) {
	if kv == nil {
		return true, nil
	}
	e := job.Event{Nonce: "b" + keyspace.NonceOf(kv.Value)[1:], Now: jobtest.Now, Token: job.Token(kv.ModRevision), Err: "cannot be read"}
	if p.nonce != freshNonces {
		e.Nonce = p.fresh(0)
	}
	sid := p.actors[m.who].sess.ID
	txn, ok, err := m.q.ReturnUnread(kv, sid, m.id, e)
	if err != nil || !ok {
		return true, err
	}
	r, err := decodeOnce(kv.Value)
	if err != nil {
		return true, err
	}
	value, err := decodeOnce(txn.Then[0].ValueBytes())
	if err != nil {
		return true, err
	}
	m.builder, m.txn, m.n = "returnUnread", txn, job.Next{Record: value, Where: job.InJobs}
	m.seen = job.Snapshot{Record: r, Where: job.InJobs, Rev: kv.ModRevision}
	m.fence = m.fenceOf(m.seen)
	return false, nil
}
