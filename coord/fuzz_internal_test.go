package coord

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
		if len(v.slots) != 1 || v.slots[0].rev != 3 {
			t.Fatalf("slots %+v", v.slots)
		}
		if s := v.slots[0]; s.Owner != "" && (s.OwnerRev <= 0 || s.nonce == "") {
			t.Errorf("%q is owned by %+v, which could never be proven dead", slot, s)
		}
		if !slices.ContainsFunc(v.entries, func(e entryView) bool { return e.key == string(mine.Key) }) {
			t.Errorf("a sound entry is not seen beside %q", entry)
		}
		for _, e := range v.entries {
			if !e.sound() {
				t.Errorf("%q stands in line", entry)
			}
		}
		if s, _, _ := v.decide(string(mine.Key), nonce); s == stepGone || s == stepEnqueue {
			t.Errorf("an entry that is there leads to step %d", s)
		}
		v.decide("", "fedcba9876543210")
	})
}

func fuzzKeys(f *testing.F) keyspace.Keyspace {
	k, err := keyspace.New("/r/")
	if err != nil {
		f.Fatal(err)
	}
	return k
}
