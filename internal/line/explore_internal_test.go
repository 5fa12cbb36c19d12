package line

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/explore"
)

// lockSet is a small world of a lock or a semaphore.
type lockSet struct {
	name    string
	permits int
	cast    []string
	setup   []string
	calls   map[string][]string
	max     map[string]int
	faults  lockFaults
	shrink  bool // nonces shrink in time
	lacks   lockKeepers
}

func (set lockSet) start(drop func(builder, compare string) bool) *lockPlay {
	p := newLockPlay(set.permits, set.cast...)
	p.drop, p.shrink, p.lacks = drop, set.shrink, set.lacks
	for _, line := range set.setup {
		if err := p.run(line); err != nil {
			panic(set.name + ": " + line + ": " + err.Error())
		}
	}
	for i := range p.actors {
		p.actors[i].calls = 0
	}
	p.spent = lockFaults{nonces: p.spent.nonces}
	return p
}

func (set lockSet) choices(p *lockPlay) (lines []string) {
	f, s := set.faults, p.spent
	for i := range p.actors {
		a := &p.actors[i]
		if a.flight != nil {
			lines = append(lines, "arrive "+a.name)
			if s.lost < f.lost {
				lines = append(lines, "unheard "+a.name, "lose "+a.name)
			}
			if s.denied < f.denied {
				lines = append(lines, "deny "+a.name)
			}
		} else if a.calls < set.max[a.name] {
			for _, call := range set.calls[a.name] {
				verb, rest, _ := strings.Cut(call, " ")
				lines = append(lines, strings.TrimSpace("send "+verb+" "+a.name+" "+rest))
			}
		}
		if slices.ContainsFunc(p.late, func(m *lockMessage) bool { return m.who == i }) {
			lines = append(lines, "late "+a.name)
		}
		if a.me.Session == "" {
			continue
		}
		if set.isLive() {
			lines = append(lines, "step "+a.name, "lapse "+a.name)
		}
		if s.expired < f.expired {
			lines = append(lines, "expire "+a.name)
		}
		if s.evicted < f.evicted {
			lines = append(lines, "evict "+a.name)
		}
	}
	if s.junk < f.junk {
		lines = append(lines, "junk")
	}
	if s.restored < f.restored {
		lines = append(lines, "restore")
	}
	return lines
}

func (set lockSet) explore(drop func(builder, compare string) bool, limit int) explore.Report {
	enc := lockEncoder{exact: set.faults.restored > 0}
	return explore.World[*lockPlay]{
		Choices: set.choices,
		Step: func(p *lockPlay, line string) (*lockPlay, bool, error) {
			next := p.copy()
			err := next.run(line)
			if errors.Is(err, errLockCannot) {
				return nil, false, nil
			}
			return next, true, err
		},
		Encode: enc.encode,
		Fair:   set.fair(),
		Rest:   (*lockPlay).rests,
		Limit:  limit,
	}.Run(set.start(drop))
}

func (set lockSet) print(r explore.Report) string {
	return "# " + strings.Join(set.cast, " ") + "\n" + strings.Join(slices.Concat(set.setup, []string{"# and then"}, r.Script), "\n") + "\n" + r.Err.Error()
}

// lockEncoder writes plays as bytes.
type lockEncoder struct {
	explore.Ranks
	exact bool
}

func (e *lockEncoder) rank(rev int64) int64 {
	if e.exact {
		return rev
	}
	return e.Rank(rev)
}

func (e *lockEncoder) encode(b []byte, p *lockPlay) []byte {
	e.Reset()
	start := len(b)
	b = e.play(b, p)
	if e.exact {
		return binary.AppendVarint(b, p.etcd.Rev())
	}
	e.Sort()
	return e.play(b[:start], p)
}

func (e *lockEncoder) play(b []byte, p *lockPlay) []byte {
	b = p.etcd.AppendCanonical(b, e.rank, func(b []byte, kv *mvccpb.KeyValue) []byte {
		k := lockValueOf(kv.Value)
		return binary.AppendVarint(append(b, k.text...), e.rank(k.rev))
	})
	for i := range p.actors {
		a := &p.actors[i]
		b = append(b, 'a', byte(a.calls), byte(a.opened), lockFlags(a.wants, a.quits, (a.hold == etcdkv.Fence{})))
		b = append(append(append(b, a.entry...), a.hold.Key...), a.hold.Nonce...)
		b = binary.AppendVarint(binary.AppendVarint(b, e.rank(a.entRev)), e.rank(int64(a.hold.Token)))
		b = append(append(b, byte(a.lined), lockFlags(a.gave, a.followed, a.closing != nil)), a.next...)
		if c := a.closing; c != nil {
			b = append(append(b, c.verb...), lockFlags(c.doubt), byte(len(c.wrote)))
			for _, nonce := range c.wrote {
				b = append(b, nonce...)
			}
		}
		b = e.message(b, a.flight)
		b = append(b, p.told.wants[i]...)
	}
	for _, m := range p.late {
		b = e.message(append(b, 'l'), m)
	}
	for _, s := range p.told.slots {
		b = append(append(b, byte(s.owner), lockFlags(s.free)), s.nonce...)
		b = binary.AppendVarint(b, e.rank(s.token))
	}
	s := p.spent
	return append(b, byte(s.lost), byte(s.expired), byte(s.evicted), byte(s.junk), byte(s.restored), byte(s.nonces), byte(s.denied))
}

func (e *lockEncoder) message(b []byte, m *lockMessage) []byte {
	if m == nil {
		return append(b, 0)
	}
	b = append(append(append(append(append(b, 1, byte(m.who)), m.verb...), m.builder...), byte(m.slot), byte(m.heir)), m.entry...)
	for j := range m.txn.If {
		c := m.txn.If[j].GetCompare()
		b = binary.AppendVarint(binary.AppendVarint(b, e.rank(c.GetModRevision())), e.rank(c.GetCreateRevision()))
		b = append(b, c.GetValue()...)
	}
	return b
}

func lockFlags(bits ...bool) (f byte) {
	for i, b := range bits {
		if b {
			f |= 1 << i
		}
	}
	return f
}

// lockValue is what is kept under a key, without the nonces that nobody compares.
type lockValue struct {
	text string
	rev  int64
}

var lockValues = map[string]lockValue{}

func lockValueOf(value []byte) lockValue {
	k, ok := lockValues[string(value)]
	if ok {
		return k
	}
	var h holderRecord
	var w waiterRecord
	switch {
	case json.Unmarshal(value, &w) == nil && w.Session != "":
		k = lockValue{w.Session + w.Claim, w.SessionRev}
	case json.Unmarshal(value, &h) == nil && h.Owner != "":
		k = lockValue{h.Nonce + h.Owner, h.OwnerRev}
	case h.Nonce != "":
		k = lockValue{text: "free"}
	default:
		k = lockValue{text: string(value)}
	}
	lockValues[string(value)] = k
	return k
}

type lockCalls = map[string][]string

var acquiring = []string{"acquire 0", "next", "quit", "release"}

// The worlds of locks. In those with a holder s1 has the permit already.
var (
	holding = []string{"send acquire s1 0", "arrive s1"}

	lockTwo = lockSet{
		name: "a lock and two sessions", permits: 1, cast: []string{"s1", "s2"},
		calls: lockCalls{"s1": append(acquiring, "commit"), "s2": append(acquiring, "seize", "commit")}, max: map[string]int{"s1": 5, "s2": 5},
		faults: lockFaults{expired: 1, lost: 1},
	}
	lockThree = lockSet{
		name: "a lock and three sessions", permits: 1, cast: []string{"s1", "s2", "s3"}, setup: holding,
		calls: lockCalls{"s1": {"release", "transfer s3"}, "s2": acquiring, "s3": acquiring}, max: map[string]int{"s1": 2, "s2": 4, "s3": 3},
		faults: lockFaults{expired: 1, evicted: 1, lost: 1},
	}
	lockForced = lockSet{
		name: "a lock and an operator", permits: 1, cast: []string{"s1", "s2", "op"}, setup: holding,
		calls: lockCalls{"s1": {"release", "commit"}, "s2": {"acquire 0", "next", "quit", "release", "commit"}, "op": {"force s1", "force s2"}},
		max:   map[string]int{"s1": 2, "s2": 4, "op": 1}, faults: lockFaults{expired: 1, evicted: 1, junk: 1},
	}
	twoPermits = lockSet{
		name: "two permits", permits: 2, cast: []string{"s1", "s2", "s3"}, setup: append(holding[:2:2], "send acquire s2 1", "arrive s2"),
		calls: lockCalls{"s1": {"release"}, "s2": {"release"}, "s3": {"acquire 0", "next", "seize", "quit", "release"}},
		max:   map[string]int{"s1": 2, "s2": 2, "s3": 5}, faults: lockFaults{expired: 1, lost: 1},
	}
	lockJunk = lockSet{
		name: "foreign keys among the waiters", permits: 1, cast: []string{"s1", "s2"}, setup: append([]string{"junk"}, holding...),
		calls: lockCalls{"s1": acquiring, "s2": acquiring}, max: map[string]int{"s1": 3, "s2": 4}, faults: lockFaults{expired: 1},
	}
	// In these etcd is taken back, to before s1 had the permit.
	lockBack = lockSet{
		name: "a lock, restored", permits: 1, cast: []string{"s1", "s2", "s3"}, setup: append([]string{"backup"}, holding...),
		calls: lockCalls{"s1": {"release", "transfer s3", "commit"}, "s2": {"acquire 0"}, "s3": {"acquire 0", "next"}},
		max:   map[string]int{"s1": 1, "s2": 1, "s3": 2}, faults: lockFaults{restored: 1, expired: 2},
	}
	lockBackForced = lockSet{
		name: "a lock and an operator, restored", permits: 1, cast: []string{"s1", "s2", "op"}, setup: append([]string{"backup"}, holding...),
		calls: lockCalls{"s2": {"acquire 0"}, "op": {"force s1"}}, max: map[string]int{"s2": 1, "op": 1}, faults: lockFaults{restored: 1},
	}
	// All wait in what is restored, so that a hand-over can be repeated.
	lockBackWaiting = lockSet{
		name: "a lock and waiters, restored", permits: 1, cast: []string{"s1", "s2", "s3", "s4"},
		setup: slices.Concat([]string{"send acquire s4 0", "arrive s4"}, waits("s1"), waits("s2"), waits("s3"),
			[]string{"backup", "send transfer s4 s1", "unheard s4", "send next s1"}),
		calls: lockCalls{"s1": {"transfer s3"}, "s4": {"transfer s2"}}, max: map[string]int{"s1": 1, "s4": 1}, faults: lockFaults{restored: 1},
	}
	// As small as the races that are hunted in them allow.
	lockSeized = lockSet{
		name: "a holder that is late", permits: 1, cast: []string{"s1", "s2", "op"}, setup: holding,
		calls: lockCalls{"s1": {"release", "commit"}, "s2": {"acquire 0", "next"}, "op": {"force s1"}},
		max:   map[string]int{"s1": 1, "s2": 2, "op": 1}, faults: lockFaults{expired: 1},
	}
	lockHeirs = lockSet{
		name: "a holder and two waiters", permits: 1, cast: []string{"s1", "s2", "s3", "op"}, setup: slices.Concat(holding, waits("s2"), waits("s3")),
		calls: lockCalls{"s1": {"release", "transfer s2", "transfer s3"}, "s2": {"quit", "next"}, "s3": {"quit"}, "op": {"force s1"}},
		max:   map[string]int{"s1": 1, "s2": 1, "s3": 1, "op": 1}, faults: lockFaults{expired: 1, evicted: 1},
	}
	lockHanded = lockSet{
		name: "a hand-over that is late", permits: 1, cast: []string{"s1", "s2", "s3"}, setup: slices.Concat(holding, waits("s2"), waits("s3")),
		calls: lockCalls{"s1": {"transfer s3"}, "s2": {"next"}}, max: map[string]int{"s1": 1, "s2": 1}, faults: lockFaults{expired: 1},
	}
	lockNewcomers = lockSet{
		name: "newcomers", permits: 1, cast: []string{"s1", "s2", "s3"}, setup: holding,
		calls: lockCalls{"s1": {"release"}, "s2": {"acquire 0", "next"}, "s3": {"acquire 0"}}, max: map[string]int{"s1": 1, "s2": 2, "s3": 1},
		faults: lockFaults{evicted: 1},
	}
	permitNewcomers = lockSet{
		name: "newcomers to two permits", permits: 2, cast: []string{"s1", "s2", "s3"}, setup: twoPermits.setup,
		calls: lockCalls{"s2": {"release", "acquire 1"}, "s3": {"acquire 0", "next"}}, max: map[string]int{"s2": 2, "s3": 3}, faults: lockFaults{expired: 1},
	}
)

func waits(name string) []string {
	return []string{"send acquire " + name + " 0", "arrive " + name, "send next " + name, "arrive " + name}
}

func (set lockSet) shrinking() lockSet {
	set.name, set.shrink = set.name+", nonces shrink", true
	return set
}

var lockSets = []lockSet{lockTwo, lockThree, lockForced, twoPermits, lockJunk, lockBack, lockBack.shrinking(), lockBackForced, lockBackForced.shrinking(),
	lockBackWaiting, lockBackWaiting.shrinking(), lockSeized, lockHeirs, lockHanded, lockNewcomers, permitNewcomers}

// Every interleaving of small worlds of locks, permits and terms.
func TestExploreLocks(t *testing.T) {
	limit := 15_000
	if raceDetector || testing.Short() {
		limit = 2_500
	}
	if *exploreMore {
		limit = 3_000_000
	}
	states, steps := 0, 0
	for _, set := range lockSets {
		t.Run(strings.NewReplacer(" ", "-", ",", "").Replace(set.name), func(t *testing.T) {
			r := set.explore(nil, limit)
			t.Log(r)
			if r.Err != nil {
				t.Errorf("found:\n%s", set.print(r))
			}
			states, steps = states+r.States, steps+r.Steps
		})
	}
	t.Logf("%d states, %d transitions in all", states, steps)
}
