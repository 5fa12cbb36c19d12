package line

import (
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Whatever lies in a lock's keys, there is a next step for everybody; junk owns
// nothing and stands in nobody's way, and a sound entry is seen.
func FuzzClaimView(f *testing.F) {
	const nonce, sid = "0123456789abcdef", "a.0123456789abcdef"
	holder := record(holderRecord{Nonce: nonce, Owner: sid, OwnerRev: 7})
	waiter := record(waiterRecord{Nonce: nonce, Session: sid, SessionRev: 7, Claim: nonce})
	for _, v := range []string{
		holder, waiter, "", "{}", "null", `{"w":"0123456789abcdef"}`, `{"w":"0123456789abcdef","owner":"x"}`, "\x00\xff", `{"w":"0123456789abcdef","owner":7}`,
		`{"w":"0123456789abcdef","owner":"x","owner_rev":"-1"}`, `{"w":"0123456789abcdef","session":"` + sid + `","session_rev":"1","claim":"\""}`, strings.Repeat("[", 20_000),
	} {
		f.Add(v, v, sid+"-1", true)
		f.Add(holder, v, "../"+sid, false)
	}
	f.Fuzz(func(t *testing.T, slot, entry, name string, leased bool) {
		k := fuzzKeys(f).LockKeys("l")
		me := waiterRecord{Nonce: nonce, Session: sid, SessionRev: 7, Claim: nonce}
		junk := &mvccpb.KeyValue{Key: []byte(k.Wait + name), Value: []byte(entry), ModRevision: 2, CreateRevision: 2}
		if leased {
			junk.Lease = 1
		}
		mine := &mvccpb.KeyValue{Key: []byte(k.Entry(sid, 9)), Value: []byte(record(me)), ModRevision: 9, CreateRevision: 9, Lease: 1}
		entries := []*mvccpb.KeyValue{junk, mine}
		if string(junk.Key) == string(mine.Key) {
			entries = entries[1:]
		}
		v := viewOf(k, []*mvccpb.KeyValue{{Key: []byte(k.Only), Value: []byte(slot), ModRevision: 3}}, entries, 10)
		if len(v.Slots) != 1 || v.Slots[0].Rev != 3 {
			t.Fatalf("slots %+v", v.Slots)
		}
		if s := v.Slots[0]; s.Owner != "" && (s.OwnerRev <= 0 || s.Nonce == "") {
			t.Errorf("%q is owned by %+v, which could never be proven dead", slot, s)
		}
		if !slices.ContainsFunc(v.Entries, func(e Entry) bool { return e.Key == string(mine.Key) }) {
			t.Errorf("a sound entry is not seen beside %q", entry)
		}
		for _, e := range v.Entries {
			if !e.sound() {
				t.Errorf("%q stands in line", entry)
			}
		}
		if s, _, _ := v.Decide(string(mine.Key), nonce); s == StepGone || s == StepEnqueue {
			t.Errorf("an entry that is there leads to step %d", s)
		}
		v.Decide("", "fedcba9876543210")
	})
}

func fuzzKeys(f *testing.F) keyspace.Keyspace {
	k, err := keyspace.New("/r/")
	if err != nil {
		f.Fatal(err)
	}
	return k
}
