package keyspace

import (
	"slices"
	"strings"
	"testing"
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
		return []string{k.LockKeys(p.Name).Only, k.LockKeys(p.Name).Wait + p.Session + "-" + number}
	case "elections":
		return []string{k.ElectionKeys(p.Name).Only, k.ElectionKeys(p.Name).Wait + p.Session + "-" + number}
	case "semaphores":
		c := k.SemaphoreKeys(p.Name, 1)
		return []string{c.Slots + number, c.Wait + p.Session + "-" + number}
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
	k, err := New("/r/")
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
