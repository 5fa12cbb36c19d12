package line

import (
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// lockKeepers are taken away one at a time, to see that each is needed.
type lockKeepers struct {
	noBook    bool // an acquisition is forgotten whose answer is lost
	hasty     bool // what is on its way is not waited for
	unread    bool // "not ours any more" counts as our own doing
	noHandOff bool // a release that lost a race is not tried again
}

// lockClosing is a hold's way out under way, as its closer has it.
type lockClosing struct {
	verb  string
	args  []string
	wrote []string // by its tries
	doubt bool     // a try's answer was lost
}

// isLive tells whether what must go on can be told: not where etcd is taken back and
// nobody notices.
func (set lockSet) isLive() bool { return set.faults.restored == 0 }

// fair are the lines that go on when no faults happen any more.
func (set lockSet) fair() func(line string) bool {
	if !set.isLive() {
		return nil
	}
	return func(line string) bool {
		verb, _, _ := strings.Cut(line, " ")
		return slices.Contains([]string{"arrive", "late", "step", "lapse"}, verb)
	}
}

// step is what a process does by itself: an acquisition goes on, or withdraws, or a
// release goes on. The answer comes at once.
func (p *lockPlay) step(who int) error {
	a := &p.actors[who]
	if a.flight != nil || !p.lives(who) {
		return errLockCannot
	}
	calls, was, rev := a.calls, *a, p.etcd.Rev()
	var err error
	switch {
	case a.closing != nil:
		err = p.closeAgain(who)
	case a.quits:
		err = p.send("quit", who, nil)
	default:
		err = p.send("next", who, nil)
	}
	a.calls = calls
	if err != nil || a.flight == nil {
		return err
	}
	if err = p.arrive(who, true); err == nil && rev == p.etcd.Rev() && was.stands(a) {
		return errLockCannot // refused: it is tried again later
	}
	return err
}

// stands tells whether an actor is where it was.
func (a lockActor) stands(now *lockActor) bool {
	return a.wants == now.wants && a.quits == now.quits && a.entry == now.entry && a.hold == now.hold && (a.closing == nil) == (now.closing == nil)
}

// closes notes a way out of a hold, before its Txn is sent. Where etcd was taken back,
// nobody knows what is under way.
func (p *lockPlay) closes(a *lockActor, verb string, args []string, wrote string) {
	if p.backup != nil {
		return
	}
	c := lockClosing{verb: verb, args: args}
	if a.closing != nil {
		c = *a.closing
	}
	c.wrote = append(slices.Clip(c.wrote), wrote)
	a.closing = &c
}

// isFixed tells that nothing that the actor has sent for its claim is on its way.
func (p *lockPlay) isFixed(who int) bool {
	return p.lacks.hasty || !slices.ContainsFunc(p.late, func(m *lockMessage) bool {
		return m.who == who && m.builder != "withdraw" && m.builder != "commit"
	})
}

// closeAgain is the next try of a way out, as claims.Way has it.
func (p *lockPlay) closeAgain(who int) error {
	a := &p.actors[who]
	c := a.closing
	if !p.isFixed(who) {
		return errLockCannot
	}
	if p.view().Current(a.hold) == nil {
		if p.lacks.noHandOff {
			return errLockCannot
		}
		err := p.send("again", who, nil)
		if err == errLockCannot { // no such waiter: refused, and it is ours
			return p.tellClosed(who, claims.Refused)
		}
		return err
	}
	if !c.doubt {
		return p.tellClosed(who, claims.Fenced)
	}
	return p.learn(who)
}

// learn reads what followed the claim, after a try of which that is not known.
func (p *lockPlay) learn(who int) error {
	a := &p.actors[who]
	if p.lacks.unread {
		return p.tellClosed(who, claims.Applied)
	}
	events, err := p.etcd.Events([]byte(a.hold.Key), nil, int64(a.hold.Token)+1)
	if err != nil {
		return err
	}
	var next *clientv3.Event
	if len(events) > 0 {
		next = (*clientv3.Event)(events[0])
	}
	v, _ := FollowedBy(next, a.hold, a.closing.wrote)
	return p.tellClosed(who, v)
}

// tellClosed is what a closing call returns, which must be true.
func (p *lockPlay) tellClosed(who int, v claims.Verdict) error {
	a := &p.actors[who]
	c := a.closing
	a.closing = nil
	ours := a.gave || a.followed && slices.Contains(c.wrote, a.next)
	switch {
	case v == claims.Applied && !ours:
		return lockViolation("%s is told that its %s was applied, and it was not", a.name, c.verb)
	case v == claims.Fenced && a.gave:
		return lockViolation("%s is told that its claim was taken, and it gave it up itself", a.name)
	case v == claims.Refused && a.gave:
		return lockViolation("%s is told that its %s was refused, and it was applied", a.name, c.verb)
	}
	if v != claims.Refused {
		a.hold, a.wants = etcdkv.Fence{}, false
	}
	return nil
}

// follows notes what became of the holds that a request ended.
func (p *lockPlay) follows(m *lockMessage, was *lockPlay) error {
	for i, before := range was.told.slots {
		now := p.told.slots[i]
		if before.owner < 0 || before.token == now.token && before.owner == now.owner {
			continue
		}
		for j := range p.actors {
			a := &p.actors[j]
			if a.hold.Key != p.Keys.Slot(i) || int64(a.hold.Token) != before.token {
				continue
			}
			a.followed, a.next = true, ""
			if now.owner >= 0 {
				a.next = now.nonce
			}
			if m.who == j && m.verb != "force" {
				a.gave = true
				if p.backup == nil && a.closing == nil && (m.verb == "release" || m.verb == "transfer") {
					return lockViolation("%s was told that its %s was refused, and then it was applied", a.name, m.verb)
				}
			}
		}
	}
	return nil
}

// rests judges a world in which nothing happens any more by itself.
func (p *lockPlay) rests() error {
	free := false
	for i, s := range p.view().Slots {
		o := p.actorOf(s.Owner)
		if o < 0 || s.dead {
			free = true
			continue
		}
		if h := p.actors[o].hold; h.Key != s.Key || h.Nonce != s.Nonce || int64(h.Token) != s.Rev {
			return lockViolation("permit %d stays with the session of %s, and nobody has it", i, p.actors[o].name)
		}
	}
	for _, e := range p.view().Entries {
		if o := p.actorOf(e.Session); o >= 0 && p.lives(o) && (p.actors[o].me.Nonce != e.Claim || !p.actors[o].waits()) {
			return lockViolation("an entry of %s stays in line, and nobody waits", p.actors[o].name)
		}
	}
	for i := range p.actors {
		a := &p.actors[i]
		if a.me.Session == "" || !p.lives(i) {
			continue
		}
		switch {
		case a.closing != nil:
			return lockViolation("a %s of %s has no end", a.closing.verb, a.name)
		case a.waits() && (free || len(p.view().Slots) < p.Keys.N):
			return lockViolation("%s waits, and a permit is there", a.name)
		}
	}
	return nil
}

// waits tells whether an acquisition is under way.
func (a *lockActor) waits() bool { return a.wants && !a.quits && (a.hold == etcdkv.Fence{}) }

// lapse is the end of a lease whose session's key is gone: it is renewed no more.
func (p *lockPlay) lapse(who int) error {
	a := &p.actors[who]
	if p.lives(who) || !p.etcd.Leased(a.lease) {
		return errLockCannot
	}
	must(p.etcd.Revoke(a.lease))
	p.withdrawn()
	return nil
}

// deny is etcd's refusal of a request. After an earlier try it says nothing about that.
func (p *lockPlay) deny(who int) error {
	a := &p.actors[who]
	m := a.flight
	if m == nil {
		return errLockCannot
	}
	a.flight = nil
	switch {
	case a.closing != nil && (m.verb == "release" || m.verb == "transfer"):
		if a.closing.doubt {
			return p.learn(who)
		}
		return p.tellClosed(who, claims.Refused)
	case m.builder == "take" || m.builder == "enqueue":
		a.quits = true // the call returns the error
	}
	return nil
}
