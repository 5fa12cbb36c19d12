package line

import (
	"slices"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// arrive brings a request to etcd, and the answer back unless it is lost for good.
func (p *lockPlay) arrive(who int, heard bool) error {
	m := p.actors[who].flight
	if m == nil {
		return errLockCannot
	}
	p.actors[who].flight = nil
	rev, err := p.deliver(m)
	if err != nil {
		return err
	}
	if !heard {
		p.unknown(m)
		return nil
	}
	return p.hear(m, rev)
}

// lose makes the sender give up, while its request stays on its way.
func (p *lockPlay) lose(who int) error {
	m := p.actors[who].flight
	if m == nil {
		return errLockCannot
	}
	p.spent.lost++
	p.actors[who].flight = nil
	p.late = append(p.late, m)
	p.unknown(m)
	return nil
}

// lateArrives brings the oldest request to etcd that its sender has given up.
func (p *lockPlay) lateArrives(who int) error {
	i := slices.IndexFunc(p.late, func(m *lockMessage) bool { return m.who == who })
	if i < 0 {
		return errLockCannot
	}
	m := p.late[i]
	p.late = slices.Delete(p.late, i, i+1)
	_, err := p.deliver(m)
	return err
}

// deliver applies a request and judges what it did; rev is 0 when it was refused.
func (p *lockPlay) deliver(m *lockMessage) (rev int64, err error) {
	was := *p
	resp, err := p.etcd.Commit(m.txn.If, m.txn.Then, m.txn.Else)
	applied := err == nil && resp.Succeeded
	if err != nil && !etcdkv.IsLeaseNotFound(err) {
		return 0, err
	}
	if !applied {
		return 0, nil
	}
	p.told = p.told.copy()
	if err := p.judge(m, &was, resp.Header.Revision); err != nil {
		return 0, err
	}
	if err := p.follows(m, &was); err != nil {
		return 0, err
	}
	return resp.Header.Revision, p.consistent()
}

// unknown is what a call does that will never know: one that acquires gives up, and
// cleans up behind; one that gives up looks again.
func (p *lockPlay) unknown(m *lockMessage) {
	a := &p.actors[m.who]
	switch {
	case (m.builder == "take" || m.builder == "enqueue") && p.lacks.noBook:
		a.wants, a.entry = false, ""
	case m.builder == "take" || m.builder == "enqueue":
		a.quits = true
	case a.closing != nil && (m.verb == "release" || m.verb == "transfer"):
		c := *a.closing
		c.doubt = true
		a.closing = &c
	}
}

// hear is the answer; rev is 0 when it was refused.
func (p *lockPlay) hear(m *lockMessage, rev int64) error {
	a := &p.actors[m.who]
	switch {
	case m.verb == "quit":
		if rev > 0 {
			a.wants, a.entry = false, ""
			return p.gone(m.who)
		}
	case m.builder == "take" && rev > 0:
		a.hold, a.entry = etcdkv.Fence{Key: p.Keys.Slot(m.slot), Token: rev, Nonce: m.me.Nonce}, ""
	case m.builder == "enqueue" && rev > 0:
		a.entRev = rev
	case m.builder == "take" || m.builder == "enqueue":
		if m.builder == "enqueue" {
			a.entry = ""
		}
		a.quits = a.quits || !p.lives(m.who) // its Else shows that the session is gone
	case (m.verb == "release" || m.verb == "transfer") && rev > 0:
		if a.closing != nil {
			return p.tellClosed(m.who, claims.Applied)
		}
		a.hold, a.wants = etcdkv.Fence{}, false
	case m.verb == "commit" && rev == 0 && a.closing == nil:
		a.hold, a.wants = etcdkv.Fence{}, false
	}
	return nil
}

// gone is a call that ended without a permit: then nothing of it may be left.
func (p *lockPlay) gone(who int) error {
	for i, s := range p.told.slots {
		if s.owner == who && s.nonce == p.actors[who].me.Nonce && p.lives(who) {
			return lockViolation("%s holds permit %d, and nobody knows", p.actors[who].name, i)
		}
	}
	return nil
}

// judge holds what was applied against what may happen, and moves the spec on.
func (p *lockPlay) judge(m *lockMessage, was *lockPlay, rev int64) error {
	who := p.actors[m.who].name
	s := &p.told.slots[max(0, m.slot)]
	switch m.builder {
	case "take":
		if err := p.judgeTake(m, was); err != nil {
			return err
		}
		if rev <= s.token {
			return lockViolation("%s holds permit %d under token %d, behind token %d", who, m.slot, rev, s.token)
		}
		*s = slotSpec{owner: m.who, nonce: m.me.Nonce, token: rev}
		p.told.wants[m.who] = ""
		return nil
	case "enqueue":
		return p.judgeEnqueue(m, was)
	case "withdraw":
		p.told.wants[m.who] = ""
		return nil
	}
	if s.owner < 0 || s.nonce != m.fence.Nonce || s.token != int64(m.fence.Token) {
		return lockViolation("%s: %s of permit %d is applied under token %d, which is superseded", who, m.verb, m.slot, m.fence.Token)
	}
	if m.builder == "commit" {
		return nil
	}
	return p.judgeGiving(m, was, s, rev)
}

// judgeTake judges a claim that somebody makes for himself.
func (p *lockPlay) judgeTake(m *lockMessage, was *lockPlay) error {
	who := p.actors[m.who].name
	s := was.told.slots[m.slot]
	switch {
	case !was.lives(m.who):
		return lockViolation("permit %d is claimed by %s, whose session has ended", m.slot, who)
	case s.owner >= 0 && was.lives(s.owner):
		return lockViolation("permit %d is taken from %s, which lives", m.slot, p.actors[s.owner].name)
	case m.entry != "" && was.told.wants[m.who] != m.me.Nonce:
		return lockViolation("permit %d is claimed by %s, which does not wait any more", m.slot, who)
	case s.owner < 0 && !s.free && m.entry == "" && was.waiting() >= 0:
		return lockViolation("%s takes permit %d past %s, which waits", who, m.slot, p.actors[was.waiting()].name)
	}
	return p.onlyOne(m.who, m.me.Nonce, m.slot)
}

// onlyOne refuses a second permit for one call.
func (p *lockPlay) onlyOne(who int, nonce string, slot int) error {
	for i, s := range p.told.slots {
		if i != slot && s.owner == who && s.nonce == nonce {
			return lockViolation("one call of %s holds permits %d and %d", p.actors[who].name, i, slot)
		}
	}
	return nil
}

// waiting is somebody who waits in line and lives, or -1.
func (p *lockPlay) waiting() int {
	for i, nonce := range p.told.wants {
		if nonce != "" && p.lives(i) {
			return i
		}
	}
	return -1
}

func (p *lockPlay) judgeEnqueue(m *lockMessage, was *lockPlay) error {
	if !was.lives(m.who) {
		return lockViolation("%s waits in line although its session has ended", p.actors[m.who].name)
	}
	p.told.wants[m.who] = m.me.Nonce
	return nil
}

// judgeGiving judges a permit that is handed to another, or to nobody.
func (p *lockPlay) judgeGiving(m *lockMessage, was *lockPlay, s *slotSpec, rev int64) error {
	if m.heir < 0 {
		there := p.etcd.Lookup(p.Keys.Slot(m.slot)) != nil
		if i := was.waiting(); !there && i >= 0 {
			return lockViolation("permit %d is given to nobody, while %s waits", m.slot, p.actors[i].name)
		}
		*s = slotSpec{owner: -1, token: s.token, free: there}
		return nil
	}
	heir := p.actors[m.heir].name
	switch {
	case !was.lives(m.heir):
		return lockViolation("permit %d is handed to %s, whose session has ended", m.slot, heir)
	case was.told.wants[m.heir] != m.me.Nonce:
		return lockViolation("permit %d is handed to %s, which does not wait any more", m.slot, heir)
	}
	*s = slotSpec{owner: m.heir, nonce: m.me.Nonce, token: rev}
	p.told.wants[m.heir] = ""
	return p.onlyOne(m.heir, m.me.Nonce, m.slot)
}

// consistent holds what is in etcd against the spec.
func (p *lockPlay) consistent() error {
	v := p.view()
	for i, s := range p.told.slots {
		got := v.Slots[i]
		if p.actorOf(got.Owner) != s.owner || s.owner >= 0 && (got.Nonce != s.nonce || got.Rev != s.token) || s.owner < 0 && s.free != (got.Rev > 0) {
			return lockViolation("permit %d is of %q in its record, of actor %d in truth", i, got.Owner, s.owner)
		}
	}
	for i, nonce := range p.told.wants {
		waits := slices.ContainsFunc(v.Entries, func(e Entry) bool { return p.actorOf(e.Session) == i && e.Claim == nonce })
		if nonce != "" && !waits {
			return lockViolation("%s waits without an entry", p.actors[i].name)
		}
	}
	return nil
}
