package line

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// claimKeysFor are the keys of a lock and of a semaphore of three.
func claimKeysFor(t *testing.T) (lock, sem keyspace.ClaimKeys) {
	t.Helper()
	space, err := keyspace.New("/r/")
	if err != nil {
		t.Fatal(err)
	}
	return space.LockKeys("l"), space.SemaphoreKeys("s", 3)
}

func kv(key, value string, created, mod, lease int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: created, ModRevision: mod, Lease: lease}
}

const (
	nonceA, nonceB, nonceC = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"
	sidA, sidB, sidC       = "a.000000000000000a", "b.000000000000000b", "c.000000000000000c"
)

func waiter(sid, claim string) string {
	return record(waiterRecord{Nonce: nonceA, Session: sid, SessionRev: 7, Claim: claim})
}

func TestViewOfKeys(t *testing.T) {
	lock, sem := claimKeysFor(t)
	holder := record(holderRecord{Nonce: nonceA, Owner: sidA, OwnerRev: 7})
	for _, tc := range []struct {
		name    string
		keys    keyspace.ClaimKeys
		slots   []*mvccpb.KeyValue
		entries []*mvccpb.KeyValue
		want    string
	}{
		{"nothing", lock, nil, nil, "[0   open] [] false"},
		{"held", lock, []*mvccpb.KeyValue{kv(lock.Only, holder, 3, 9, 0)}, nil,
			"[9 " + nonceA + " " + sidA + " held] [] false"},
		{"freed", lock, []*mvccpb.KeyValue{kv(lock.Only, record(holderRecord{Nonce: nonceB}), 3, 9, 0)}, nil,
			"[9 " + nonceB + "  open] [] false"},
		{"no JSON", lock, []*mvccpb.KeyValue{kv(lock.Only, "junk", 3, 9, 0)}, nil, "[9   open] [] false"},
		{"no nonce", lock, []*mvccpb.KeyValue{kv(lock.Only, `{"owner":"`+sidA+`","owner_rev":"7"}`, 3, 9, 0)}, nil, "[9   open] [] false"},
		{"an owner that could never be dead", lock, []*mvccpb.KeyValue{kv(lock.Only, `{"w":"`+nonceA+`","owner":"`+sidA+`"}`, 3, 9, 0)}, nil, "[9   open] [] false"},
		{"an unknown field", lock, []*mvccpb.KeyValue{kv(lock.Only, `{"w":"`+nonceA+`","owner":"`+sidA+`","owner_rev":"7","new":1}`, 3, 9, 0)}, nil,
			"[9 " + nonceA + " " + sidA + " held] [] false"},
		{"permits, one missing, one foreign", sem,
			[]*mvccpb.KeyValue{kv(sem.Slot(1), holder, 3, 9, 0), kv(sem.Slots+"1/2", "junk", 3, 9, 0), kv(sem.Slots+"7", holder, 3, 9, 0)}, nil,
			"[0   open][9 " + nonceA + " " + sidA + " held][0   open] [] false"},
		{"oldest first, then by key", lock, nil,
			[]*mvccpb.KeyValue{
				kv(lock.Entry(sidA, 1), waiter(sidA, nonceA), 30, 30, 1),
				kv(lock.Entry(sidB, 1), waiter(sidB, nonceB), 20, 20, 1),
				kv(lock.Entry(sidC, 9), waiter(sidC, nonceC), 20, 20, 1),
			},
			"[0   open] [" + sidB + " " + sidC + " " + sidA + "] false"},
		{"foreign entries", lock, nil,
			[]*mvccpb.KeyValue{
				kv(lock.Wait+"junk", "junk", 1, 1, 1),                                           // no record
				kv(lock.Entry(sidA, 1), waiter(sidA, nonceA), 2, 2, 0),                          // without a lease it would stay for ever
				kv(lock.Entry(sidA, 2)+"/x", waiter(sidA, nonceA), 3, 3, 1),                     // too deep
				kv(lock.Entry(sidB, 3), waiter(sidA, nonceA), 4, 4, 1),                          // under another's name
				kv(lock.Entry(sidA, 4), waiter(sidA, "short"), 5, 5, 1),                         // no claim to hand over
				kv(lock.Entry(sidA, 5), `{"session":"`+sidA+`","claim":"`+nonceA+`"}`, 6, 6, 1), // could never be dead
				kv(lock.Entry(sidA, 6), waiter(sidA, nonceC), 7, 7, 1),
			},
			"[0   open] [" + sidA + "] true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := viewOf(tc.keys, tc.slots, tc.entries, 100)
			got := ""
			for _, s := range v.Slots {
				state := "held"
				if s.open() {
					state = "open"
				}
				got += fmt.Sprintf("[%d %s %s %s]", s.Rev, s.Nonce, s.Owner, state)
			}
			var who []string
			for _, e := range v.Entries {
				who = append(who, e.Session)
			}
			got += fmt.Sprintf(" %v %v", who, v.foreign)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	held, dead, free := Slot{holderRecord: holderRecord{Owner: sidA, OwnerRev: 7}, Nonce: nonceA},
		Slot{holderRecord: holderRecord{Owner: sidB, OwnerRev: 7}, Nonce: nonceB, dead: true}, Slot{}
	mine := Slot{holderRecord: holderRecord{Owner: sidC, OwnerRev: 7}, Nonce: nonceC}
	slots := func(views ...Slot) []Slot {
		for i := range views {
			views[i].Key = fmt.Sprint("slot", i)
		}
		return views
	}
	line := func(names ...string) (entries []Entry) {
		for _, n := range names {
			entries = append(entries, Entry{Key: n})
		}
		return entries
	}
	steps := map[step]string{
		StepGranted: "granted", StepTake: "take", StepEnqueue: "enqueue", StepFollow: "follow", StepHead: "head", StepGone: "gone",
	}
	for _, tc := range []struct {
		name  string
		slots []Slot
		line  []Entry
		me    string
		want  string
	}{
		{"free", slots(free), nil, "", "take slot0"},
		{"held", slots(held), nil, "", "enqueue"},
		{"dead", slots(dead), nil, "", "take slot0"},
		{"free, but one waits", slots(free), line("x"), "", "enqueue"},
		{"dead, but one waits", slots(dead), line("x"), "", "enqueue"},
		{"held, first in line", slots(held), line("me", "x"), "me", "head"},
		{"held, second", slots(held), line("x", "me"), "me", "follow x"},
		{"held, third", slots(held), line("x", "y", "me"), "me", "follow y"},
		{"dead, first in line", slots(dead), line("me", "x"), "me", "take slot0"},
		{"dead, second", slots(dead), line("x", "me"), "me", "follow x"},
		{"handed over", slots(mine), line("x"), "me", "granted slot0"},
		{"handed over, entry still seen", slots(mine), line("me"), "me", "granted slot0"},
		{"claimed, answer lost", slots(held, mine), nil, "", "granted slot1"},
		{"entry taken away", slots(held), line("x"), "me", "gone"},
		{"entry taken away, slot free", slots(free), nil, "me", "gone"},
		{"permits: first free one", slots(held, free, free), nil, "", "take slot1"},
		{"permits: the first waiter takes the first", slots(held, free, dead), line("me", "x"), "me", "take slot1"},
		{"permits: the second takes the second", slots(held, free, dead), line("x", "me"), "me", "take slot2"},
		{"permits: a newcomer takes the third", slots(free, free, dead), line("x", "y"), "", "take slot2"},
		{"permits: none is left for a newcomer", slots(held, free, dead), line("x", "y"), "", "enqueue"},
		{"permits: none is left for the third", slots(held, free, dead), line("x", "y", "me"), "me", "follow y"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, slot, before := View{Slots: tc.slots, Entries: tc.line}.Decide(tc.me, nonceC)
			got := steps[s]
			if k := slot.Key + before.Key; k != "" {
				got += " " + k
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
