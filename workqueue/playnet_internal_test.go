package workqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// verdict is what a sender is told of a request. It must be true.
type verdict uint8

const (
	toldNothing verdict = iota
	toldApplied
	toldRefused
	toldUnknown
)

func (v verdict) String() string { return [...]string{"nothing", "applied", "refused", "unknown"}[v] }

// arrive brings a request to etcd, and the answer back unless it is lost for good.
func (p *play) arrive(who int, heard bool) (string, error) {
	m := p.actors[who].flight
	if m == nil {
		return "", cannot("%s has nothing on its way", p.actors[who].name)
	}
	if p.doubled {
		p.last[who] = m
	}
	resp, what, err := p.deliver(m)
	if err != nil {
		return "", err
	}
	if !heard {
		p.spent.lost++
		return what + ", unheard", p.gaveUp(m)
	}
	err = p.hear(m, resp)
	if told := p.calls[m.call].told; told != toldNothing && !strings.HasPrefix(what, told.String()) {
		what += ", and told: " + told.String()
	}
	return what, err
}

// lose makes the sender give up, while its request stays on its way.
func (p *play) lose(who int) error {
	m := p.actors[who].flight
	if m == nil {
		return cannot("%s has nothing on its way", p.actors[who].name)
	}
	p.spent.lost++
	p.late = append(p.late, m)
	return p.gaveUp(m)
}

// lateArrives brings the oldest request to etcd that its sender has given up.
func (p *play) lateArrives(who int) (string, error) {
	i := slices.IndexFunc(p.late, func(m *message) bool { return m.who == who })
	if i < 0 {
		return "", cannot("nothing of %s is late", p.actors[who].name)
	}
	m := p.late[i]
	p.late = slices.Delete(slices.Clone(p.late), i, i+1)
	_, what, err := p.deliver(m)
	return what, err
}

// twice brings the last request of an actor to etcd once more, as a network may that
// no lane compare stands against.
func (p *play) twice(who int) (string, error) {
	m := p.last[who]
	if m == nil {
		return "", cannot("%s has sent nothing", p.actors[who].name)
	}
	p.last[who] = nil
	p.spent.twice++
	_, what, err := p.deliver(m)
	return what, err
}

// deliver applies a request and judges what it did.
func (p *play) deliver(m *message) (*clientv3.TxnResponse, string, error) {
	was := *p
	resp, err := p.commit(m.txn)
	if err != nil {
		if strings.Contains(err.Error(), "lease not found") {
			return nil, "refused: its lease is gone", nil
		}
		return nil, "", err
	}
	if !resp.Succeeded {
		return resp, "refused", nil
	}
	if p.real != nil {
		return resp, p.describe(m), nil
	}
	p.calls = slices.Clone(p.calls)
	p.calls[m.call].applied++
	if n := p.calls[m.call].applied; n > 1 {
		return resp, "", violation("one call of %s %s was applied %d times", p.actors[m.who].name, m.verb, n)
	}
	if p.calls[m.call].told == toldRefused {
		return resp, "", violation("%s was told that its %s is refused, and then it was applied", p.actors[m.who].name, m.verb)
	}
	p.told = p.told.copy()
	if err := p.judge(m, &was, resp.Header.Revision); err != nil {
		return resp, "", err
	}
	return resp, p.describe(m), p.consistent()
}

// describe says what a request did.
func (p *play) describe(m *message) string {
	switch m.builder {
	case "progress":
		return "applied: checkpoint " + fmt.Sprint(m.seq)
	case "configure", "disband":
		return "applied"
	case "remove":
		return "applied: deleted"
	case "register":
		if m.forGood {
			return "applied: it has left"
		}
		return "applied: it serves"
	case "relocate":
		return "applied: it is " + p.jobs[m.there]
	}
	r := m.n.Record
	switch {
	case m.n.Where == job.InDone, m.n.Where == job.InDead:
		return "applied: " + r.Outcome
	case r.Claimed():
		return fmt.Sprintf("applied: claimed by %s, attempt %d", strings.SplitN(r.Owner, ".", 2)[0], r.Attempt)
	}
	return "applied: open"
}

// tell notes what the sender of a call is told, which must be true.
func (p *play) tell(m *message, what verdict) error {
	p.calls = slices.Clone(p.calls)
	c := &p.calls[m.call]
	c.told = what
	if p.real != nil {
		return nil
	}
	if what == toldApplied && c.applied == 0 || what == toldRefused && c.applied > 0 {
		return violation("%s is told that its %s was %s, and it was applied %d times", p.actors[m.who].name, m.verb, what, c.applied)
	}
	return nil
}

// gaveUp is what the process does whose answer is lost beyond finding out: closings
// and checkpoints are sent again, everything else is reported as unknown.
func (p *play) gaveUp(m *message) error {
	a := &p.actors[m.who]
	switch m.builder {
	case "close", "progress":
		if m.verb != "reconcile" {
			a.unsure = true // the same is under way again
			return nil
		}
	case "claim", "reclaim":
		a.moves(m.n.Record.Nonce, claims.Deserted) // its caller has gone
	}
	a.flight = nil
	return p.tell(m, toldUnknown)
}

// hear is the answer's coming to the process.
func (p *play) hear(m *message, resp *clientv3.TxnResponse) error {
	a := &p.actors[m.who]
	unsure := a.unsure
	a.flight, a.unsure = nil, false
	if resp == nil {
		p.notMade(m)
		return p.tell(m, toldRefused)
	}
	if err := p.answered(m, resp); err != nil {
		return err
	}
	switch {
	case resp.Succeeded:
		p.took(m, resp.Header.Revision)
		return p.tell(m, toldApplied)
	case m.builder == "close" && m.verb != "reconcile":
		return p.tell(m, p.judgeEnd(m, unsure))
	case m.builder == "progress":
		return p.judgeNote(m, resp, unsure)
	}
	p.notMade(m)
	return p.tell(m, toldRefused)
}

// notMade is a request that certainly was not applied: a claim is none, and one that was
// to be closed is open as before.
func (p *play) notMade(m *message) {
	a := &p.actors[m.who]
	switch {
	case m.builder == "claim" || m.builder == "reclaim":
		a.moves(m.n.Record.Nonce, claims.NotMade)
	case m.builder == "close" && m.verb != "reconcile":
		a.moves(m.fence.Nonce, claims.Open)
	}
}

// took is what a process knows after it was told of its success.
func (p *play) took(m *message, rev int64) {
	a := &p.actors[m.who]
	switch m.builder {
	case "claim", "reclaim":
		if !m.n.Claims() {
			a.moves(m.n.Record.Nonce, claims.NotMade)
			return
		}
		at := job.Snapshot{Record: m.n.Record, Where: job.InJobs, Rev: rev}
		a.holds(&hold{at: at, fence: m.fenceOf(at), job: m.job})
		if m.seen.Record.Attempt > 0 { // else nobody reads it: see readBeside
			a.hold.noted = p.modRev(m.q.Keys.Progress(m.id))
		}
	case "close":
		a.moves(m.fence.Nonce, claims.Closed)
		if m.verb != "reconcile" {
			a.hold = nil
		}
	case "progress":
		h := *a.hold
		h.noted, h.seq = rev, m.seq
		a.hold = &h
	}
}

// judgeEnd is what wayOut does: a refusal after an unknown outcome may be
// our own success, and the trail tells.
func (p *play) judgeEnd(m *message, unsure bool) verdict {
	if p.lookupHeld(m) {
		p.notMade(m)
		return toldRefused // for what the caller joined to it: the claim stays
	}
	p.actors[m.who].ends()
	if !unsure {
		return toldRefused
	}
	l, _ := p.find(m.job)
	switch applied, known := endedAs(l.Record, m.n.Record); {
	case !known:
		return toldUnknown
	case applied:
		return toldApplied
	}
	return toldRefused
}

// judgeNote is what Claim.writeNote does.
func (p *play) judgeNote(m *message, resp *clientv3.TxnResponse, unsure bool) error {
	a := &p.actors[m.who]
	got := resp.Responses[1].GetResponseRange().Kvs
	if len(got) == 1 && keyspace.NonceOf(got[0].Value) == keyspace.NonceOf(m.txn.Then[0].ValueBytes()) {
		p.took(m, got[0].ModRevision)
		return p.tell(m, toldApplied)
	}
	if p.lookupHeld(m) {
		// Left by an earlier job of this id: sent again over what is there.
		again := *m
		if len(got) == 1 {
			h := *a.hold
			h.noted = got[0].ModRevision
			a.hold = &h
		}
		again.txn = m.q.Progress(m.fence, m.id, string(m.txn.Then[0].ValueBytes()), a.hold.noted)
		a.flight = &again
		return nil
	}
	a.ends()
	if unsure {
		return p.tell(m, toldUnknown)
	}
	return p.tell(m, toldRefused)
}

// lookupHeld tells whether the claim of a message is current.
func (p *play) lookupHeld(m *message) bool {
	kv := p.lookup(m.fence.Key)
	return kv != nil && kv.ModRevision == int64(m.fence.Token) && keyspace.NonceOf(kv.Value) == m.fence.Nonce
}

// take makes a worker begin what is in its inbox.
func (p *play) take(who int, id string) error {
	a := &p.actors[who]
	h := p.homeOf(id)
	kv := p.lookup(h.q.Keys.Assigned(a.sess.ID, h.id))
	switch {
	case kv == nil || a.crashed:
		return cannot("nothing is assigned to %s", a.name)
	case a.old || !a.reg.serving:
		return cannot("%s cannot read it, or has left", a.name)
	case a.hold != nil && a.hold.job != id:
		return cannot("%s is busy", a.name)
	}
	r, err := decodeOnce(kv.Value)
	if err != nil {
		return err
	}
	if a.hold != nil && a.hold.fence.Nonce == r.Nonce {
		return cannot("%s has begun it", a.name)
	}
	at := job.Snapshot{Record: r, Where: job.InJobs, Rev: kv.ModRevision}
	a.holds(&hold{at: at, fence: h.fenceOf(at), noted: p.modRev(h.q.Keys.Progress(h.id)), job: id})
	return nil
}

// errViolation is what the explorer looks for.
var errViolation = errors.New("violated")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errViolation, fmt.Sprintf(format, args...))
}

// noteSeq reads which checkpoint lies beside a job, and of which claim.
func noteOf(value []byte) (token job.Token, seq int) {
	var n job.Note
	_ = json.Unmarshal(value, &n)
	_, _ = fmt.Sscan(string(n.CheckpointBytes()), &seq)
	return n.Token, seq
}
