package workqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/explore"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// stageSet is a small world whose every interleaving is to be tried.
type stageSet struct {
	name  string
	cast  []string // actors
	setup []string // lines that lead to the first state
	// calls are what actors may send, and at most how often in all.
	calls map[string][]string
	max   map[string]int
	// hands are lines of what happens around them, at most as often as faults tell.
	hands []string
	// faults bound what happens around them, over the whole of a run.
	faults spent
	nonces nonces
	params Params
	// exact keeps revisions as they are, for etcd that is taken back: else states that
	// differ only in how many revisions went by are one state.
	exact bool
	// lacks is which keeper is taken away.
	lacks keepers
}

// explore tries every interleaving, or as many states as limit allows.
func (set stageSet) explore(drop func(builder, compare string) bool, limit int) explore.Report {
	enc := encoder{exact: set.exact}
	return explore.World[*play]{
		Choices: set.choices,
		Step: func(p *play, line string) (*play, bool, error) {
			next := p.copy()
			_, err := next.run(line)
			if errors.Is(err, errCannot) {
				return nil, false, nil
			}
			return next, true, err
		},
		Encode: enc.encode,
		Fair:   set.fair(),
		Rest:   (*play).rests,
		Limit:  limit,
	}.Run(set.start(drop))
}

// start is the first state.
func (set stageSet) start(drop func(builder, compare string) bool) *play {
	space, err := keyspace.New("/p/")
	if err != nil {
		panic(err)
	}
	p := newPlay(space, set.cast...)
	p.lacks = set.lacks
	p.nonce, p.perJob, p.drop, p.doubled = set.nonces, set.params, drop, set.faults.twice > 0
	p.open()
	for _, line := range set.setup {
		if _, err := p.run(line); err != nil {
			panic(fmt.Sprintf("%s: %s: %v", set.name, line, err))
		}
	}
	for i := range p.actors {
		p.actors[i].calls = 0
	}
	p.epoch = 0x1000
	p.calls, p.spent = nil, spent{forgotten: p.spent.forgotten}
	return p
}

// choices are the lines that could be next. Those that make no sense are left out by
// running them.
func (set stageSet) choices(p *play) (lines []string) {
	f, s := set.faults, p.spent
	fair := set.isLive()
	for i := range p.actors {
		a := &p.actors[i]
		switch {
		case a.crashed:
		case a.doubt:
			lines = append(lines, "learn "+a.name)
		case a.flight != nil:
			lines = append(lines, "arrive "+a.name)
			if s.lost < f.lost {
				lines = append(lines, "unheard "+a.name, "lose "+a.name)
			}
			if s.denied < f.denied {
				lines = append(lines, "deny "+a.name)
			}
		default:
			if a.calls < set.max[a.name] {
				for _, call := range set.calls[a.name] {
					verb, rest, _ := strings.Cut(call, " ")
					lines = append(lines, strings.TrimSpace("send "+verb+" "+a.name+" "+rest))
				}
			}
			if a.sess.ID != "" {
				for _, job := range p.jobs {
					lines = append(lines, "take "+a.name+" "+job)
				}
			}
		}
		if slices.ContainsFunc(p.late, func(m *message) bool { return m.who == i }) {
			lines = append(lines, "late "+a.name)
		}
		if s.twice < f.twice && p.last[i] != nil {
			lines = append(lines, "twice "+a.name)
		}
		if a.sess.ID == "" {
			continue
		}
		if fair {
			lines = append(lines, "settle "+a.name, "lapse "+a.name)
		}
		if s.expired < f.expired {
			lines = append(lines, "expire "+a.name)
		}
		if s.evicted < f.evicted {
			lines = append(lines, "evict "+a.name)
		}
		if s.crashed < f.crashed && !a.crashed && a.name[0] == 'w' {
			lines = append(lines, "crash "+a.name)
		}
		if s.left < f.left && a.name[0] == 'w' {
			lines = append(lines, "leave "+a.name)
		}
		if s.led < f.led && a.name[0] == 'd' {
			lines = append(lines, "lead "+a.name)
		}
	}
	if s.forgotten < f.forgotten {
		lines = append(lines, "forget")
	}
	if s.restored < f.restored {
		lines = append(lines, "restore")
	}
	if s.foreign < f.foreign {
		lines = append(lines, "foreign")
	}
	if s.hands < f.hands {
		lines = append(lines, set.hands...)
	}
	return lines
}

// encoder writes plays as bytes: equal ones behave alike from there on.
type encoder struct {
	explore.Ranks
	exact bool
}

func (e *encoder) rank(rev int64) int64 {
	if e.exact {
		return rev
	}
	return e.Rank(rev)
}

// encode goes over the play twice: the first time to collect the revisions that
// occur, so that the second can write their ranks.
func (e *encoder) encode(b []byte, p *play) []byte {
	e.Reset()
	start := len(b)
	b = e.play(b, p)
	if e.exact {
		return binary.AppendVarint(b, p.etcd.Rev())
	}
	e.Sort()
	return e.play(b[:start], p)
}

func (e *encoder) play(b []byte, p *play) []byte {
	b = p.etcd.AppendCanonical(b, e.rank, func(b []byte, kv *mvccpb.KeyValue) []byte { return e.value(b, kv.Value) })
	for i := range p.actors {
		b = e.actor(b, &p.actors[i])
	}
	for _, m := range p.late {
		b = e.message(append(b, 'l'), m)
	}
	if p.doubled {
		for _, m := range p.last {
			b = e.message(append(b, 'm'), m)
		}
	}
	for _, c := range p.calls {
		b = append(b, c.applied, byte(c.told))
	}
	b = e.spec(b, p.told)
	s := p.spent
	return append(b, byte(s.lost), byte(s.expired), byte(s.crashed), byte(s.forgotten), byte(s.restored), byte(s.foreign), byte(s.twice), byte(s.led), byte(s.left), byte(s.evicted), byte(s.hands), byte(s.denied), byte(p.nonces))
}

func (e *encoder) actor(b []byte, a *actor) []byte {
	b = append(b, 'a', byte(a.calls), flags(a.crashed, a.unsure, a.hold != nil, a.ended, a.doubt, a.reg.serving, a.reg.leaving, a.reg.left))
	b = binary.AppendVarint(append(b, byte(a.reg.tries), flags(a.reg.sure)), e.rank(a.reg.rev))
	for _, nonce := range a.reg.nonces {
		b = append(b, nonce...)
	}
	for _, c := range a.book {
		b = append(append(append(append(b, 'b'), c.nonce...), c.job...), byte(c.state))
	}
	for _, nonce := range a.script {
		b = append(append(b, 's'), nonce...)
	}
	b = append(binary.AppendVarint(b, e.rank(int64(a.term.Token))), a.term.Nonce...)
	if h := a.hold; h != nil {
		b = binary.AppendVarint(b, e.rank(h.at.Rev))
		b = binary.AppendVarint(b, e.rank(h.noted))
		b = e.record(append(b, byte(h.seq)), h.at.Record)
	}
	return e.message(b, a.flight)
}

func flags(bits ...bool) (f byte) {
	for i, b := range bits {
		if b {
			f |= 1 << i
		}
	}
	return f
}

func (e *encoder) message(b []byte, m *message) []byte {
	if m == nil {
		return append(b, 0)
	}
	b = append(b, byte(m.call)+1)
	b = append(append(append(b, m.verb...), m.job...), m.with...)
	b = append(append(b, m.under.Nonce...), byte(m.under.Token))
	b = append(b, byte(m.seq), byte(m.toWho), flags(m.counted, m.forGood, m.config.Paused, m.config.Mode != ""))
	for i := range m.txn.If {
		c := m.txn.If[i].GetCompare()
		b = binary.AppendVarint(b, e.rank(c.GetModRevision()))
		b = binary.AppendVarint(b, e.rank(c.GetCreateRevision()))
	}
	if slices.Contains(repairs, m.builder) {
		b = append(append(append(b, byte(m.there), byte(len(m.payload))), m.payload...), m.repair.bytes...)
		for _, op := range m.txn.Then {
			b = e.value(append(append(b, 'o'), op.KeyBytes()...), op.ValueBytes())
		}
	}
	b = binary.AppendVarint(b, e.rank(m.seen.Rev))
	return e.record(e.record(b, m.seen.Record), m.n.Record)
}

// known is what the bytes under a key turned out to be: the explorer meets them again
// and again.
type known struct {
	record *job.Record
	token  int64
	seq    int
	config bool
	flags  byte
}

var knownValues = map[string]known{}

func whatIs(value []byte) known {
	k, ok := knownValues[string(value)]
	if ok {
		return k
	}
	if r, err := decodeOnce(value); err == nil {
		k.record = r
	} else if token, seq := noteOf(value); token != 0 {
		k.token, k.seq = int64(token), seq
	} else if c, err := job.DecodeConfig(value); err == nil {
		k.config, k.flags = true, flags(c.Paused, c.Mode != "")
	}
	knownValues[string(value)] = k
	return k
}

// value writes what is kept under a key. Random nonces that nobody compares, and
// revisions, are not written as they are.
func (e *encoder) value(b []byte, value []byte) []byte {
	switch k := whatIs(value); {
	case k.record != nil:
		return e.record(b, k.record)
	case k.token != 0:
		return append(binary.AppendVarint(b, e.rank(k.token)), byte(k.seq))
	case k.config:
		return append(b, k.flags)
	}
	return append(b, value...)
}

func (e *encoder) record(b []byte, r *job.Record) []byte {
	if r == nil {
		return append(b, 0)
	}
	b = append(append(append(append(b, 1), r.Nonce...), r.Born...), r.Owner...)
	b = append(append(append(append(b, byte(r.Beside)), r.Payload...), r.PayloadText...), r.Payload64...)
	b = binary.AppendVarint(b, e.rank(r.OwnerRev))
	b = append(b, byte(r.Attempt), byte(r.Failures), byte(r.Losses), byte(r.LogTotal))
	for _, a := range r.Attempts {
		b = append(append(b, a.Owner...), a.Outcome...)
		b = binary.AppendVarint(b, e.rank(int64(a.Token)))
	}
	return b
}

func (e *encoder) spec(b []byte, s spec) []byte {
	b = append(b, s.leader[:min(16, len(s.leader))]...)
	for i := range s.jobs {
		j := &s.jobs[i]
		b = append(b, flags(j.exists, j.claimed, j.assigned, j.garbled != "", j.littered, j.leftovers), byte(j.where), byte(j.owner), byte(j.attempt), byte(j.accepted), byte(j.noteSeq), byte(len(j.trail)))
		b = binary.AppendVarint(b, e.rank(j.token))
		b = binary.AppendVarint(b, e.rank(j.noteToken))
	}
	return b
}
