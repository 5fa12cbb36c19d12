package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// spot is where a job is, as its clients can tell.
type spot string

const (
	nowhere spot = "nowhere"
	waiting spot = "open"
	held    spot = "claimed"
	lent    spot = "claimed by somebody whom nobody recorded"
	done    spot = "done"
	dead    spot = "dead"
)

// jobState is the model's state of one id.
type jobState struct {
	spot  spot
	token int64 // of the latest claim
	// tried tells that an attempt has failed, or was lost, since it was enqueued or
	// requeued: then it may be requeued while it waits.
	tried bool
}

func (s jobState) live() bool { return s.spot == waiting || s.spot == held || s.spot == lent }

// at is the state after a step that makes no claim.
func (s jobState) at(to spot) jobState { return jobState{to, s.token, s.tried} }

// afresh is waiting, where that may be, with attempts that count anew.
func (s jobState) afresh(ok bool) []jobState {
	s.tried = false
	return s.when(ok, waiting)
}

// failed is at for a job of which an attempt came to nothing.
func (s jobState) failed() jobState {
	s.tried = true
	return s
}

// input is what a call wants, output what it was told.
type input struct {
	verb     string // the name of a move, or checkpoint
	token    int64  // of the claim: gained, or proven; 0 for other people's calls
	retained bool
	// to is where it led, where that is known.
	to spot
	// any tells that it is not known which ending a closing call wanted.
	any bool
}

type output struct {
	result Result
	why    Why
}

// jobModel is the state machine of one id, as clients know it. Lapse lets claims end
// by themselves, for histories without events.
func jobModel(lapse bool) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{jobState{spot: nowhere}} },
		Step: func(state, in, out any) []any {
			var next []any
			for _, s := range before(state.(jobState), lapse) {
				for _, n := range s.step(in.(input), out.(output)) {
					next = append(next, n)
				}
			}
			return next
		},
		DescribeOperation: func(in, out any) string {
			i, o := in.(input), out.(output)
			return fmt.Sprintf("%s(%d) -> %s %s", i.verb, i.token, o.result, o.why)
		},
		DescribeState: func(state any) string {
			s := state.(jobState)
			return fmt.Sprintf("%s %d", s.spot, s.token)
		},
	}
	return m.ToModel()
}

// before lists the states that a state may have become unseen, before a call.
func before(s jobState, lapse bool) []jobState {
	states := []jobState{s}
	if lapse && s.spot == held {
		// Its loss, or its release behind the scenes; and another's claim that nobody
		// lived to tell.
		states = append(states, s.at(waiting), s.failed().at(waiting), s.at(dead), s.failed().at(lent))
	}
	if lapse && s.spot == lent {
		states = append(states, s.at(waiting), s.failed().at(waiting), s.at(dead))
	}
	return states
}

// step lists the states that a call can lead to with that answer; none when it cannot
// be answered so.
func (s jobState) step(in input, out output) []jobState {
	switch out.result {
	case Applied:
		return s.apply(in)
	case Unknown:
		return append(s.apply(in), s)
	case Refused:
		if s.refuses(in, out.why) {
			return []jobState{s}
		}
		return nil
	}
	return []jobState{s}
}

// apply lists where a call leads when it is applied.
func (s jobState) apply(in input) []jobState {
	mine := s.spot == held && s.token == in.token
	if in.any {
		if !mine {
			return nil
		}
		return []jobState{s.at(waiting), s.at(done), s.at(dead)}
	}
	switch in.verb {
	case moveEnqueue:
		return s.afresh(!s.live() && (!in.retained || s.spot != dead))
	case moveClaim, moveReclaim:
		// Tokens rise.
		if s.live() && s.token < in.token {
			s = jobState{held, in.token, s.tried || in.verb == moveReclaim}
			return []jobState{s}
		}
		return nil
	case "checkpoint":
		if mine {
			return []jobState{s}
		}
		return nil
	case moveComplete:
		return s.when(mine, done)
	case moveFail, moveLoss:
		return s.failed().either(in, mine)
	case moveSnooze, moveRelease:
		return s.either(in, mine)
	case moveCancel:
		return s.when(s.live() && (in.token == 0 || mine), done)
	case moveBreak:
		return s.either(in, s.spot == lent || s.spot == held && (in.token == 0 || mine))
	case moveRequeue:
		return s.afresh(s.spot == done || s.spot == dead || s.spot == waiting && s.tried)
	case moveBury:
		return s.when(s.spot == waiting, dead)
	case moveDelete, moveLeave:
		return s.when(true, nowhere)
	case moveArrive, moveForeign, moveSalvage, moveImport:
		return s.when(in.verb == moveSalvage || !s.live(), in.to)
	case moveEdit:
		if s.spot == held && in.token == 0 {
			return []jobState{s, s.at(waiting)} // whoever held it may be fenced
		}
		if s.spot == held {
			return s.when(mine, waiting)
		}
		return []jobState{s}
	}
	return nil
}

func (s jobState) when(ok bool, to spot) []jobState {
	if !ok {
		return nil
	}
	return []jobState{s.at(to)}
}

// either: back to the queue, or buried, unless it is known which.
func (s jobState) either(in input, ok bool) []jobState {
	if in.to != "" {
		return s.when(ok, in.to)
	}
	return append(s.when(ok, waiting), s.when(ok, dead)...)
}

// refuses tells whether a call can be refused so in this state. A finished job may
// have gone by the retention.
func (s jobState) refuses(in input, why Why) bool {
	switch why {
	case Fenced:
		return s.spot != held || s.token != in.token
	case Exists:
		return s.live() || in.retained && s.spot != nowhere
	case NotFound:
		return s.spot == nowhere || s.spot == done
	case NotApplicable:
		switch in.verb {
		case moveCancel:
			return !s.live()
		case moveBreak:
			return s.spot != held && s.spot != lent
		case moveBury:
			return s.spot != waiting
		case moveRequeue:
			return s.live() || s.spot == done // its payload went with it
		}
	}
	return true
}

// step is what a call is to the model; ok is false for calls that say nothing about a
// job.
func (op *Op) step() (in input, out output, ok bool) {
	in = input{verb: moveOf[op.Verb], token: op.Token, retained: op.Retained, any: op.Verb == Close}
	switch {
	case op.Verb == Claim:
		in.verb = moveClaim
	case op.Verb == Checkpoint:
		in.verb = "checkpoint"
	case op.Verb == Commit || in.verb == "" && !in.any:
		return in, out, false
	}
	return in, output{op.Result, op.Why}, op.Result != NotApplied
}

// step is what a move is to the model.
func (m *move) step() input {
	in := input{verb: m.name}
	switch {
	case m.to.claimed():
		in.token = m.rev
	case m.from.claimed():
		in.token = m.from.rev
	}
	if m.to != nil {
		in.to = map[place]spot{inJobs: waiting, inDone: done, inDead: dead}[m.to.place]
	}
	return in
}
