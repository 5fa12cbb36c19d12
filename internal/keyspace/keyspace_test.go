package keyspace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// oddNames try to break out of their segment, or to look like something else.
var oddNames = []string{
	"a", "thumbnails", "a/b", "/", "//", "../x", ".", "..", "a.b", "a%2Fb", "%", "%%", "%2", "%zz", "100%", "a b",
	"ü", "日本語", "a\x00b", "\xff", "config", "jobs", "meta", "A-Z_09.z", "a\nb", "?*[]", "+", "~",
}

const sid = "host-1.0123456789abcdef"

func under(t testing.TB, root string) keyspace.Keyspace {
	t.Helper()
	k, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// checkKeys builds every key that q and id take part in, and parses it again.
func checkKeys(t *testing.T, k keyspace.Keyspace, q, id string) {
	t.Helper()
	qk := k.Queue(q)
	if qk.Name() != q {
		t.Errorf("queue %q: got name %q", q, qk.Name())
	}
	for key, want := range map[string]keyspace.ParsedKey{
		k.Meta():             {Kind: "meta"},
		k.Session(sid):       {Kind: "sessions", Session: sid},
		k.Lane(sid, 12):      {Kind: "lanes", Session: sid},
		qk.Config():          {Kind: "config", Queue: q},
		qk.Worker(sid):       {Kind: "workers", Queue: q, Session: sid},
		qk.Job(id):           {Kind: "jobs", Queue: q, ID: id},
		qk.Payload(id):       {Kind: "payloads", Queue: q, ID: id},
		qk.Progress(id):      {Kind: "progress", Queue: q, ID: id},
		qk.Assigned(sid, id): {Kind: "assigned", Queue: q, ID: id, Session: sid},
		qk.Done(id):          {Kind: "done", Queue: q, ID: id},
		qk.Dead(id):          {Kind: "dead", Queue: q, ID: id},
		qk.Refused(id):       {Kind: "refused", Queue: q, ID: id},
	} {
		got, ok := k.Parse(key)
		if !ok || got != want {
			t.Errorf("parse %q: got %+v, %v, want %+v", key, got, ok, want)
		}
		if want.Queue != "" && !strings.HasPrefix(key, qk.Prefix()) {
			t.Errorf("%q is not under its queue's prefix %q", key, qk.Prefix())
		}
	}
}

func TestKeyspaceRoundTrip(t *testing.T) {
	for _, root := range []string{"", "/x", "plain", "/a/b/"} {
		k := under(t, root)
		for _, q := range oddNames {
			for _, id := range oddNames {
				checkKeys(t, k, q, id)
			}
		}
	}
}

func FuzzKeyspace(f *testing.F) {
	for _, n := range oddNames {
		f.Add(n, n)
	}
	k := under(f, "")
	f.Fuzz(func(t *testing.T, q, id string) {
		if q == "" || id == "" {
			t.Skip("names are not empty")
		}
		checkKeys(t, k, q, id)
		// What parses is what would be built, so no two keys are one thing.
		if got, ok := k.Parse(k.Queues() + q + "/done/" + id); ok && k.Queue(got.Queue).Done(got.ID) != k.Queues()+q+"/done/"+id {
			t.Errorf("%q parses to %+v, which is built differently", q+"/done/"+id, got)
		}
	})
}

func TestKeyspaceKeysOfOneNameStayApart(t *testing.T) {
	k := under(t, "")
	a, ab := k.Queue("a"), k.Queue("a/b")
	if strings.HasPrefix(ab.Prefix(), a.Prefix()) {
		t.Errorf("queue a/b lies inside queue a: %q", ab.Prefix())
	}
	if got := k.Queue("x").Job("a/b"); strings.Count(got, "/") != strings.Count(k.Queue("x").Job("ab"), "/") {
		t.Errorf("an id with a slash has another depth: %q", got)
	}
}

func TestParseRefusesForeignKeys(t *testing.T) {
	k := under(t, "")
	for _, rest := range []string{
		"", "meta/", "metadata", "sessions", "sessions/", "sessions/a", "sessions/a.b", "sessions/" + sid + "/x",
		"sessions/a.b.0123456789abcdef", "sessions/.0123456789abcdef", "sessions/a.0123456789ABCDEF", "sessions/%2e.0123456789abcdef",
		"lanes/" + sid, "lanes/" + sid + "/", "lanes/" + sid + "/x", "lanes/" + sid + "/01", "lanes/" + sid + "/1-",
		"queues/q", "queues/q/", "queues/q/config/", "queues//config", "queues/q/other", "queues/q/other/x",
		"queues/q/jobs/id", "queues/q/jobs/00/id", "queues/q/done/a/b", "queues/q/done/", "queues/q/done/%2f", "queues/q/done/%4",
		"queues/q/done/%41", "queues/q/done/a b", "queues/q/workers/", "queues/q/assigned/a/id", "queues/%/config",
	} {
		if got, ok := k.Parse(k.Root() + rest); ok {
			t.Errorf("parse %q: got %+v, want it refused", rest, got)
		}
	}
	if _, ok := k.Parse("/elsewhere/meta"); ok {
		t.Error("a key outside the root was parsed")
	}
	for _, rest := range []string{"lanes/" + sid + "/0", "lanes/" + sid + "/10-3"} {
		if _, ok := k.Parse(k.Root() + rest); !ok {
			t.Errorf("parse %q: refused", rest)
		}
	}
}

func TestNewRefusesBadRoots(t *testing.T) {
	for _, root := range []string{"/", "//", "/a\x00", "/a\n", "\xff"} {
		if _, err := keyspace.New(root); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("root %q: got %v, want ErrInvalid", root, err)
		}
	}
}

func TestValidateName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a/b": true, "ü": true, strings.Repeat("x", 200): true,
		"": false, strings.Repeat("x", 201): false, "a\x00": false, "a\x7f": false, "\xff": false,
	} {
		if err := keyspace.ValidateName("queue", name); (err == nil) != want || err != nil && !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("name %q: got %v, want accepted=%v", name, err, want)
		}
	}
}
