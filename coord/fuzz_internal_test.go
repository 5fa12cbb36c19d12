package coord

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// rebuild makes the keys that parse to p: a lane has a number, which p leaves out, and
// so have permits and waiting entries.
func rebuild(k Keyspace, p ParsedKey, key string) []string {
	number := key[strings.LastIndexAny(key, "/-")+1:]
	q := k.Queue(p.Queue)
	switch p.Kind {
	case "meta":
		return []string{k.Meta()}
	case "sessions":
		return []string{k.Session(p.Session)}
	case "lanes":
		lane := k.Lanes() + p.Session + "/"
		rest := strings.TrimPrefix(key, lane)
		n, note, noted := strings.Cut(rest, "-")
		if noted {
			n += "-" + note
		}
		return []string{lane + n}
	case "locks":
		return []string{k.lock(p.Name).only, k.lock(p.Name).wait + p.Session + "-" + number}
	case "elections":
		return []string{k.election(p.Name).only, k.election(p.Name).wait + p.Session + "-" + number}
	case "semaphores":
		c := k.semaphore(p.Name, 1)
		return []string{c.slots + number, c.wait + p.Session + "-" + number}
	}
	return []string{
		q.Config(), q.Worker(p.Session), q.Job(p.ID), q.Payload(p.ID), q.Progress(p.ID),
		q.Assigned(p.Session, p.ID), q.Done(p.ID), q.Dead(p.ID), q.Refused(p.ID),
	}
}

// Any key under the root is either one that the keyspace builds, byte for byte, from
// what it found in it, or no key of ours.
func FuzzParse(f *testing.F) {
	const sid = "host-1.0123456789abcdef"
	for _, rest := range []string{
		"", "meta", "sessions/" + sid, "lanes/" + sid + "/0", "lanes/" + sid + "/3-12", "queues/q/config", "queues/a%2Fb/jobs/ca/a",
		"queues/q/workers/" + sid, "queues/q/assigned/" + sid + "/a%20b", "queues/q/done/x", "queues/q/dead/%FF", "queues/q/refused/x",
		"locks/l/holder", "locks/l/waiters/" + sid + "-7", "elections/e/leader", "elections/e/candidates/" + sid + "-7",
		"semaphores/s/slots/0", "semaphores/s/waiters/" + sid + "-7", "queues/q/jobs/00/id", "queues//config", "sessions/%2E." + sid,
		"queues/q/done/%2f", "\xff/\x00", strings.Repeat("a/", 300), "locks/l/waiters/" + sid + "-07", "semaphores/s/slots/00",
	} {
		f.Add(rest)
	}
	k, err := NewKeyspace("/r/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		key := k.Root() + rest
		p, ok := k.Parse(key)
		if ok && !slices.Contains(rebuild(k, p, key), key) {
			t.Errorf("%q parses to %+v, of which it is none of the keys", key, p)
		}
		if p, ok := k.Parse(rest); ok && !strings.HasPrefix(rest, k.Root()) {
			t.Errorf("%q is outside of the root and parses to %+v", rest, p)
		}
	})
}

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
		k := Keyspace{root: "/r/"}.lock("l")
		me := waiterRecord{Nonce: nonce, Session: sid, SessionRev: 7, Claim: nonce}
		junk := &mvccpb.KeyValue{Key: []byte(k.wait + name), Value: []byte(entry), ModRevision: 2, CreateRevision: 2}
		if leased {
			junk.Lease = 1
		}
		mine := &mvccpb.KeyValue{Key: []byte(k.entry(sid, 9)), Value: []byte(record(me)), ModRevision: 9, CreateRevision: 9, Lease: 1}
		entries := []*mvccpb.KeyValue{junk, mine}
		if string(junk.Key) == string(mine.Key) {
			entries = entries[1:]
		}
		v := k.viewOf([]*mvccpb.KeyValue{{Key: []byte(k.only), Value: []byte(slot), ModRevision: 3}}, entries, 10)
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

// A nonce is what a record begins with, or nothing.
func FuzzNonceOf(f *testing.F) {
	for _, v := range []string{"", `{"w":"0123456789abcdef"}`, `{"w":"0123456789ABCDEF"}`, `{"w":"0123456789abcdef`, `{ "w":"0123456789abcdef"}`, `{"w":"0123456789abcde\"`} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		n := NonceOf(value)
		if n != "" && (len(n) != 16 || !strings.HasPrefix(string(value), headOf(n))) {
			t.Errorf("%q begins with no nonce %q", value, n)
		}
		if head := headOf("0123456789abcdef"); strings.HasPrefix(string(value), head) != (n == "0123456789abcdef") {
			t.Errorf("%q: got nonce %q", value, n)
		}
	})
}

// A token is read as it is printed, as text and as JSON.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "9223372036854775807", "9223372036854775808", "01", "+1", " 1", "", "null", `"7"`, "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := ParseToken(s); err == nil {
			if back, err := ParseToken(tok.String()); back != tok || err != nil || tok <= 0 {
				t.Errorf("%q is token %s, which is read as %s, %v", s, tok, back, err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", s, err)
		}
		var tok, back Token
		if json.Unmarshal([]byte(s), &tok) == nil {
			b, err := json.Marshal(tok)
			if err != nil || json.Unmarshal(b, &back) != nil || back != tok || tok < 0 {
				t.Errorf("%q is token %s, written as %s", s, tok, b)
			}
		}
	})
}
