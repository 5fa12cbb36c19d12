package line

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
		a.me.Nonce = p.nonce(who, a)
		a.wants, a.quits, a.entry, a.hold = true, false, "", etcdkv.Fence{}
		a.gave, a.followed, a.closing = false, false, nil
		p.sendTake(m, Slot{Key: p.Keys.Slot(int(args[0][0] - '0'))}, a)
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

func (p *lockPlay) sendTake(m *lockMessage, s Slot, a *lockActor) {
	m.builder, m.slot, m.owner, m.me, m.entry = "take", p.slotOf(s.Key), p.actorOf(s.Owner), a.me, a.entry
	m.txn = p.Take(s, a.me, a.entry, a.entRev, time.Time{})
}

// sendNext is one step of acquisition.run.
func (p *lockPlay) sendNext(m *lockMessage, v View, a *lockActor) error {
	if !a.wants || a.quits || !(a.hold == etcdkv.Fence{}) {
		return errLockCannot
	}
	if m.verb == "seize" {
		for i := range v.Slots {
			v.Slots[i].dead = true
		}
	}
	switch step, slot, _ := v.Decide(a.entry, a.me.Nonce); step {
	case StepGranted:
		a.hold, a.entry = etcdkv.Fence{Key: slot.Key, Token: slot.Rev, Nonce: a.me.Nonce}, ""
	case StepGone:
		a.entry = ""
	case StepTake:
		p.sendTake(m, slot, a)
	case StepEnqueue:
		a.lined++
		a.entry, a.entRev = p.Keys.Entry(a.me.Session, int64(a.lined)), 0
		m.builder, m.me, m.entry = "enqueue", a.me, a.entry
		m.txn = p.Enqueue(v, a.me, a.entry, clientv3.LeaseID(a.lease), time.Time{})
	default:
		return errLockCannot // it waits
	}
	return nil
}

// sendQuit is one attempt of acquisition.leave.
func (p *lockPlay) sendQuit(m *lockMessage, v View, a *lockActor) error {
	if !a.wants || !(a.hold == etcdkv.Fence{}) || !p.isFixed(m.who) {
		return errLockCannot
	}
	a.quits = true
	for _, s := range v.Slots {
		if s.Nonce == a.me.Nonce {
			p.sendRelease(m, etcdkv.Fence{Key: s.Key, Token: s.Rev, Nonce: s.Nonce}, v)
			return nil
		}
	}
	for _, e := range v.Entries {
		if e.Claim == a.me.Nonce {
			m.builder, m.me, m.entry = "withdraw", a.me, e.Key
			m.txn = p.Withdraw(e.Key, e.Rev)
			return nil
		}
	}
	a.wants, a.entry = false, "" // gone
	return p.gone(m.who)
}

func (p *lockPlay) sendRelease(m *lockMessage, f etcdkv.Fence, v View) (wrote string) {
	m.builder, m.slot, m.fence = "release", p.slotOf(f.Key), f
	if len(v.Entries) > 0 {
		m.heir, m.me, m.entry = p.actorOf(v.Entries[0].Session), claimerOf(v.Entries[0]), v.Entries[0].Key
	}
	m.txn, wrote = p.Release(f, v, time.Time{})
	return wrote
}

func claimerOf(e Entry) Claimant {
	return Claimant{Session: e.Session, Rev: e.SessionRev, Nonce: e.Claim}
}

// sendHolder is what a holder does, or an operator to it.
func (p *lockPlay) sendHolder(m *lockMessage, v View, a *lockActor, args []string) error {
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
	if err := v.Current(f); err != nil {
		if m.verb != "force" { // told that it is fenced
			a.hold, a.wants = etcdkv.Fence{}, false
		}
		return nil
	}
	switch m.verb {
	case "release":
		p.closes(a, "release", args, p.sendRelease(m, f, v))
	case "transfer":
		e, err := v.Waiter(p.actors[p.names[args[0]]].me.Session, "l")
		if err != nil {
			return errLockCannot
		}
		m.builder, m.heir, m.me, m.entry = "transfer", p.names[args[0]], claimerOf(e), e.Key
		m.txn = p.Transfer(f, e, time.Time{})
		p.closes(a, "transfer", args, e.Claim)
	case "force":
		heir := Entry{}
		if len(v.Entries) > 0 {
			heir = v.Entries[0]
			m.heir, m.me, m.entry = p.actorOf(heir.Session), claimerOf(heir), heir.Key
		}
		m.builder = "force"
		m.txn = p.force(f, heir, holderRecord{By: "op"}, time.Time{})
	}
	return nil
}
