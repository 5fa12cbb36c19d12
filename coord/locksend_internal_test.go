package coord

import (
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// send makes an actor's next request from what it reads now.
func (p *lockPlay) send(verb string, who int, args []string) error {
	a := &p.actors[who]
	switch {
	case a.flight != nil:
		return errLockCannot
	case verb == "again":
		verb, args = a.closing.verb, a.closing.args
	case a.closing != nil && (verb == "release" || verb == "transfer"):
		return errLockCannot // the one under way goes on
	}
	m := &lockMessage{who: who, verb: verb, heir: -1, owner: -1}
	v := p.view()
	switch verb {
	case "acquire":
		if a.wants {
			return errLockCannot
		}
		a.me.nonce = p.nonce(who, a)
		a.wants, a.quits, a.entry, a.hold = true, false, "", etcdkv.Fence{}
		a.gave, a.followed, a.closing = false, false, nil
		p.sendTake(m, slotView{key: p.keys.Slot(int(args[0][0] - '0'))}, a)
	case "next", "seize":
		if err := p.sendNext(m, v, a); err != nil {
			return err
		}
	case "quit":
		if err := p.sendQuit(m, v, a); err != nil {
			return err
		}
	default:
		if err := p.sendHolder(m, v, a, args); err != nil {
			return err
		}
	}
	if m.txn.If == nil {
		return nil // there was nothing to ask
	}
	if p.drop != nil {
		m.txn.If = slices.DeleteFunc(slices.Clone(m.txn.If), func(c clientv3.Cmp) bool { return p.drop(m.builder, p.describe(m, c)) })
	}
	a.calls++
	a.flight = m
	return nil
}

// nonce draws the nonce of a call's claim.
func (p *lockPlay) nonce(who int, a *lockActor) string {
	a.opened++
	p.spent.nonces++
	switch {
	case p.shrink:
		return fmt.Sprintf("%016x", 0xf000-p.spent.nonces)
	case p.backup != nil:
		return fmt.Sprintf("%016x", 0x1000+p.spent.nonces)
	}
	p.spent.nonces = 0
	return fmt.Sprintf("%016x", 0x100*(who+1)+a.opened)
}

func (p *lockPlay) sendTake(m *lockMessage, s slotView, a *lockActor) {
	m.builder, m.slot, m.owner, m.me, m.entry = "take", p.slotOf(s.key), p.actorOf(s.Owner), a.me, a.entry
	m.txn = p.take(s, a.me, a.entry, a.entRev, time.Time{})
}

// sendNext is one step of acquisition.run.
func (p *lockPlay) sendNext(m *lockMessage, v claimView, a *lockActor) error {
	if !a.wants || a.quits || !(a.hold == etcdkv.Fence{}) {
		return errLockCannot
	}
	if m.verb == "seize" {
		for i := range v.slots {
			v.slots[i].dead = true
		}
	}
	switch step, slot, _ := v.decide(a.entry, a.me.nonce); step {
	case stepGranted:
		a.hold, a.entry = etcdkv.Fence{Key: slot.key, Token: slot.rev, Nonce: a.me.nonce}, ""
	case stepGone:
		a.entry = ""
	case stepTake:
		p.sendTake(m, slot, a)
	case stepEnqueue:
		a.lined++
		a.entry, a.entRev = p.keys.Entry(a.me.sid, int64(a.lined)), 0
		m.builder, m.me, m.entry = "enqueue", a.me, a.entry
		m.txn = p.enqueue(v, a.me, a.entry, clientv3.LeaseID(a.lease), time.Time{})
	default:
		return errLockCannot // it waits
	}
	return nil
}

// sendQuit is one attempt of acquisition.leave.
func (p *lockPlay) sendQuit(m *lockMessage, v claimView, a *lockActor) error {
	if !a.wants || !(a.hold == etcdkv.Fence{}) || !p.isFixed(m.who) {
		return errLockCannot
	}
	a.quits = true
	for _, s := range v.slots {
		if s.nonce == a.me.nonce {
			p.sendRelease(m, etcdkv.Fence{Key: s.key, Token: s.rev, Nonce: s.nonce}, v)
			return nil
		}
	}
	for _, e := range v.entries {
		if e.Claim == a.me.nonce {
			m.builder, m.me, m.entry = "withdraw", a.me, e.key
			m.txn = p.withdraw(e.key, e.rev)
			return nil
		}
	}
	a.wants, a.entry = false, "" // gone
	return p.gone(m.who)
}

func (p *lockPlay) sendRelease(m *lockMessage, f etcdkv.Fence, v claimView) (wrote string) {
	m.builder, m.slot, m.fence = "release", p.slotOf(f.Key), f
	if len(v.entries) > 0 {
		m.heir, m.me, m.entry = p.actorOf(v.entries[0].Session), claimerOf(v.entries[0]), v.entries[0].key
	}
	m.txn, wrote = p.release(f, v, time.Time{})
	return wrote
}

func claimerOf(e entryView) claimer {
	return claimer{sid: e.Session, rev: e.SessionRev, nonce: e.Claim}
}

// sendHolder is what a holder does, or an operator to it.
func (p *lockPlay) sendHolder(m *lockMessage, v claimView, a *lockActor, args []string) error {
	f := a.hold
	if m.verb == "force" {
		f = p.actors[p.names[args[0]]].hold
	}
	if (f == etcdkv.Fence{}) {
		return errLockCannot
	}
	m.slot, m.fence = p.slotOf(f.Key), f
	if m.verb == "commit" {
		m.builder = "commit"
		m.txn = etcdkv.Txn{If: f.Cmps(), Then: []clientv3.Op{clientv3.OpPut("/data", a.name)}, Else: []clientv3.Op{clientv3.OpGet(f.Key)}}
		return nil
	}
	if err := v.current(f); err != nil {
		if m.verb != "force" { // told that it is fenced
			a.hold, a.wants = etcdkv.Fence{}, false
		}
		return nil
	}
	switch m.verb {
	case "release":
		p.closes(a, "release", args, p.sendRelease(m, f, v))
	case "transfer":
		e, err := v.waiter(p.actors[p.names[args[0]]].me.sid, "l")
		if err != nil {
			return errLockCannot
		}
		m.builder, m.heir, m.me, m.entry = "transfer", p.names[args[0]], claimerOf(e), e.key
		m.txn = p.transfer(f, e, time.Time{})
		p.closes(a, "transfer", args, e.Claim)
	case "force":
		heir := entryView{}
		if len(v.entries) > 0 {
			heir = v.entries[0]
			m.heir, m.me, m.entry = p.actorOf(heir.Session), claimerOf(heir), heir.key
		}
		m.builder = "force"
		m.txn = p.force(f, heir, holderRecord{By: "op"}, time.Time{})
	}
	return nil
}
