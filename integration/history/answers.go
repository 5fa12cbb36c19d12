package history

import "slices"

// moveOf is what a verb leads to when it is applied.
var moveOf = map[Verb]string{
	Enqueue: moveEnqueue, Complete: moveComplete, Fail: moveFail, Snooze: moveSnooze, Release: moveRelease,
	Cancel: moveCancel, Requeue: moveRequeue, Bury: moveBury, Break: moveBreak, Edit: moveEdit, Move: moveLeave, Delete: moveDelete, Import: moveImport,
}

// answers holds what the clients were told against what happened.
func (c *checker) answers() {
	ended := map[claimID]*move{}
	for _, m := range c.world.moves {
		if m.from.claimed() {
			ended[claimID{m.key.queue, m.key.id, m.from.rev}] = m
		}
	}
	c.oneResult()
	for i := range c.run.Log.Ops {
		op := &c.run.Log.Ops[i]
		switch {
		case op.closes():
			c.closing(op, ended[claimID{op.Queue, op.ID, op.Token}])
		case op.Verb == Claim:
			c.claimed(op)
		case op.Verb == Checkpoint:
			c.checkpointed(op, ended[claimID{op.Queue, op.ID, op.Token}])
		case op.Verb == Commit:
			c.committed(op)
		case op.Result == Applied && (op.Revision != 0 || op.Verb != Delete && op.Verb != Import):
			c.applied(op, c.moveAt(op, op.Revision))
		}
	}
	if !c.run.Partial {
		c.unasked()
	}
}

// oneResult counts what the clients believe: at most one of them was told that its
// result is the job's.
func (c *checker) oneResult() {
	for key, ops := range c.ops {
		told := map[string]int{}
		for _, op := range ops {
			if op.Verb == Complete && op.Result == Applied {
				told[op.Born]++
			}
		}
		for born, n := range told {
			allowed := 1
			for _, m := range c.world.byJob[key] {
				if m.name == moveRequeue && m.from.place != inJobs && m.born() == born {
					allowed++
				}
			}
			if n > allowed {
				c.fail("I1", key, 0, "%d clients were told that their result of job %s was accepted", n, born)
			}
		}
	}
}

// moveAt finds the move that a call may have made at a revision.
func (c *checker) moveAt(op *Op, rev int64) *move {
	for _, m := range c.world.byJob[jobKey{op.Queue, op.ID}] {
		if m.rev == rev {
			return m
		}
	}
	return nil
}

func (c *checker) wrong(op *Op, rev int64, format string, args ...any) {
	args = append([]any{op.Proc, op.Client, op.Verb, op.Result}, args...)
	c.fail("answers", jobKey{op.Queue, op.ID}, rev, "%s %s was told: %s %s. "+format, args...)
}

// applied: it happened, at that revision, and not before it was asked for.
func (c *checker) applied(op *Op, m *move) {
	switch {
	case m == nil:
		c.wrong(op, op.Revision, "Nothing happened to the job then")
	case op.Verb != Close && m.name != moveOf[op.Verb]:
		c.wrong(op, m.rev, "What happened was: %s", m.name)
	case op.Born != "" && m.born() != op.Born:
		c.wrong(op, m.rev, "It happened to another job, born %s, not %s", m.born(), op.Born)
	case m.seen < op.Call:
		c.wrong(op, m.rev, "It had happened before the call began")
	}
}

// claimed: the claim is there, in its session's name.
func (c *checker) claimed(op *Op) {
	if op.Result != Applied {
		return
	}
	m := c.moveAt(op, op.Token)
	switch {
	case m == nil || !m.to.claimed():
		c.wrong(op, op.Token, "No claim was made then")
	case m.to.rec.Owner != op.Session:
		c.wrong(op, op.Token, "The claim is that of %s, not of %s", m.to.rec.Owner, op.Session)
	}
}

// closing judges an answer to a closing call; m is how that claim ended, nil while it
// stands.
func (c *checker) closing(op *Op, m *move) {
	switch op.Result {
	case Applied:
		if m == nil {
			c.fail("I2", jobKey{op.Queue, op.ID}, op.Revision, "%s %s was told that its %s was accepted, and token %d was not the claim's when anything happened", op.Proc, op.Client, op.Verb, op.Token)
			return
		}
		c.applied(op, m)
		if e := m.entry(); e.Owner != op.Session {
			c.wrong(op, m.rev, "It was done by %s, not by %s", e.Owner, op.Session)
		}
	case Refused:
		if m == nil && op.Why == Fenced {
			c.wrong(op, 0, "Its claim, of token %d, stands", op.Token)
			return
		}
		c.noEffect(op, m)
	case NotApplied:
		c.noEffect(op, m)
	}
}

// noEffect: what happened was somebody else's doing. A release may be that of the
// owner's own process behind the call. An entry with an actor is that of somebody who
// intervened, as with the same verb at the same moment: no owner's call leaves one.
func (c *checker) noEffect(op *Op, m *move) {
	if m == nil || m.name != moveOf[op.Verb] || op.Verb == Release || c.run.Partial || op.Token != 0 && m.entry().Actor != "" {
		return
	}
	others := c.claims[claimID{op.Queue, op.ID, op.Token}]
	if !slices.ContainsFunc(others, func(o *Op) bool { return o != op && o.mayBe(m.name) }) {
		c.wrong(op, m.rev, "It happened all the same")
	}
}

// mayBe tells whether a call may have led to a move. A closing write of which it is not
// known what it wanted is one of the owner's all the same.
func (op *Op) mayBe(name string) bool {
	return op.happened() && (moveOf[op.Verb] == name || op.Verb == Close && slices.Contains(ownEndings, name))
}

// ownEndings are the moves by which an owner ends its claim.
var ownEndings = []string{moveComplete, moveFail, moveSnooze, moveRelease, moveCancel}

// checkpointed: a claim that was told so wrote one. A newer one can stand for it.
func (c *checker) checkpointed(op *Op, ended *move) {
	switch {
	case op.Result == Applied && !c.world.notes[claimID{op.Queue, op.ID, op.Token}]:
		c.wrong(op, 0, "No checkpoint of token %d was written", op.Token)
	case op.Result == Refused && op.Why == Fenced && ended == nil:
		c.wrong(op, 0, "Its claim, of token %d, stands", op.Token)
	}
}

// unasked finds what happened although no client asked for it, or oftener than they
// asked.
func (c *checker) unasked() {
	for key, moves := range c.world.byJob {
		count := map[string]int{}
		for _, m := range moves {
			switch m.name {
			case moveEnqueue, moveRequeue, moveBury, moveBreak, moveEdit, moveLeave:
				count[m.name]++
			case moveComplete, moveFail, moveSnooze:
				c.askedByOwner(m)
			case moveCancel:
				if !m.from.claimed() || m.entry().Actor != "" || !c.ownerAsked(m) {
					count[m.name]++
				}
			}
		}
		for name, n := range count {
			if asked := c.calls(key, name); n > asked {
				c.fail("answers", key, 0, "%s happened %d times, and was asked for %d times", name, n, asked)
			}
		}
	}
}

// askedByOwner: a claim's end was asked for by its owner.
func (c *checker) askedByOwner(m *move) {
	// A process that was killed may have given up a deaf handler's claim just before.
	abandoned := m.name == moveFail && c.cutShort[claimID{m.key.queue, m.key.id, m.from.rev}]
	if !abandoned && !c.ownerAsked(m) {
		c.fail("answers", m.key, m.rev, "%s happened under token %d, and its owner did not ask for it, or was told that it did not happen", m.name, m.from.rev)
	}
}

// ownerAsked tells whether a closing call may have led to a move.
func (c *checker) ownerAsked(m *move) bool {
	return slices.ContainsFunc(c.claims[claimID{m.key.queue, m.key.id, m.from.rev}], func(op *Op) bool { return op.mayBe(m.name) })
}

// calls counts the calls that may have led to a move.
func (c *checker) calls(key jobKey, name string) int {
	n := 0
	for _, op := range c.ops[key] {
		if !op.closes() && op.happened() && moveOf[op.Verb] == name {
			n++
		}
	}
	if name == moveEnqueue {
		n += c.joined(key)
	}
	return n
}

// joined counts the completions that may have enqueued a job along.
func (c *checker) joined(key jobKey) int {
	if c.withJobs == nil {
		c.withJobs = map[jobKey]int{}
		for i := range c.run.Log.Ops {
			op := &c.run.Log.Ops[i]
			for k := range op.Effects {
				if p, ok := c.world.keys.Parse(k); ok && p.Kind == "jobs" && op.happened() {
					c.withJobs[jobKey{p.Queue, p.ID}]++
				}
			}
		}
	}
	return c.withJobs[key]
}
