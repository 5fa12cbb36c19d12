package history_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/keyspace"
)

const (
	restA = "a.0000000000000001"
	restB = "b.0000000000000002"
)

// restWorld is a world at rest: two processes, a job that one runs, as its dispatcher
// assigned it, a leader who runs, and a candidate.
func restWorld(t *testing.T) (history.Rest, keyspace.Keyspace) {
	t.Helper()
	keys, err := keyspace.New("/r/")
	if err != nil {
		t.Fatal(err)
	}
	q := keys.Queue("q")
	mine := []byte(`{"w":"0123456789abcdef","owner":"` + restA + `","owner_rev":"5"}`)
	kvs := map[string]history.KV{
		keys.Session(restA):           {ModRev: 5, CreateRev: 5, Lease: 1},
		keys.Session(restB):           {ModRev: 6, CreateRev: 6, Lease: 2},
		q.Worker(restA):               {ModRev: 7, CreateRev: 7, Lease: 1},
		q.Job("open"):                 {Value: []byte(`{"w":"0123456789abcdef"}`), ModRev: 8, CreateRev: 8},
		q.Job("mine"):                 {Value: mine, ModRev: 9, CreateRev: 9},
		q.Assigned(restA, "mine"):     {Value: mine, ModRev: 9, CreateRev: 9},
		keys.Election("e") + "leader": {Value: mine, ModRev: 10, CreateRev: 10},
		keys.Election("e") + "candidates/" + restB + "-1": {ModRev: 11, CreateRev: 11, Lease: 2},
		keys.Lock("freed") + "holder":                     {Value: []byte(`{"w":"0123456789abcdef"}`), ModRev: 12, CreateRev: 12},
		q.Job("orphan"):                                   {Value: []byte(`{"w":"0123456789abcdef","owner":"gone.0000000000000003","owner_rev":"3"}`), ModRev: 4},
	}
	return history.Rest{
		Root: "/r/", Final: &history.Final{KVs: kvs}, Sessions: map[string]int{"a": 1, "b": 1}, Elections: []string{"e"},
		Leases: []history.Lease{{ID: 1, Keys: []string{keys.Session(restA), q.Worker(restA)}}, {ID: 2, Keys: []string{keys.Session(restB)}}},
		Runs: func(c history.Claimed) bool {
			return c.Session == restA && (c.ID == "mine" && c.Token == 9 || c.Name == "e" && c.Token == 10)
		},
	}, keys
}

// Each way in which a run does not come to rest is found, and nothing else is.
func TestUnrest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		wrong func(*history.Rest, keyspace.Keyspace)
		want  string // "" is at rest
	}{
		{"at rest", func(*history.Rest, keyspace.Keyspace) {}, ""},
		{"a claim without a keeper", func(r *history.Rest, _ keyspace.Keyspace) {
			r.Runs = func(c history.Claimed) bool { return c.Name == "e" }
		}, "claim /r/queues/q/jobs/"},
		{"a later claim of a job that an earlier one runs", func(r *history.Rest, k keyspace.Keyspace) {
			for _, key := range []string{k.Queue("q").Job("mine"), k.Queue("q").Assigned(restA, "mine")} {
				kv := r.Final.KVs[key]
				kv.ModRev = 20
				r.Final.KVs[key] = kv
			}
		}, "claim /r/queues/q/jobs/"},
		{"a claim under the name of an earlier session", func(r *history.Rest, k keyspace.Keyspace) {
			kv := r.Final.KVs[k.Session(restA)]
			kv.CreateRev = 6
			r.Final.KVs[k.Session(restA)] = kv
			r.Elections = nil
			r.Runs = func(history.Claimed) bool { return false } // orphans are nobody's
		}, ""},
		{"an inbox entry of another claim", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Queue("q").Assigned(restA, "mine")] = history.KV{ModRev: 8}
		}, "inbox entry /r/queues/q/assigned/" + restA + "/mine: the job is not claimed by that"},
		{"an inbox entry of a dead session", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Queue("q").Assigned("c.0000000000000003", "x")] = history.KV{ModRev: 8}
		}, "inbox entry /r/queues/q/assigned/c.0000000000000003/x: its session is gone"},
		{"a registration of a dead session", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Queue("q").Worker("c.0000000000000003")] = history.KV{ModRev: 8}
		}, "registration /r/queues/q/workers/c.0000000000000003"},
		{"a lock that is held and that nobody holds", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Lock("l")+"holder"] = r.Final.KVs[k.Queue("q").Job("mine")]
		}, "claim /r/locks/l/holder"},
		{"a permit that is held and that nobody holds", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Semaphores()+"s/slots/0"] = r.Final.KVs[k.Queue("q").Job("mine")]
		}, "claim /r/semaphores/s/slots/0"},
		{"a waiting entry and nobody waits", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Lock("l")+"waiters/"+restB+"-4"] = history.KV{ModRev: 20}
		}, "waiting entry /r/locks/l/waiters/" + restB + "-4, put at 20"},
		{"a candidate without its session", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Election("e")+"candidates/c.0000000000000003-4"] = history.KV{ModRev: 20}
		}, "waiting entry /r/elections/e/candidates/c.0000000000000003-4"},
		{"nobody leads", func(r *history.Rest, k keyspace.Keyspace) { delete(r.Final.KVs, k.Election("e")+"leader") }, "election e has no living leader"},
		{"the leader is dead", func(r *history.Rest, k keyspace.Keyspace) {
			r.Final.KVs[k.Election("e")+"leader"] = r.Final.KVs[k.Queue("q").Job("orphan")]
		}, "election e has no living leader"},
		{"the leader does not run", func(r *history.Rest, _ keyspace.Keyspace) {
			r.Runs = func(c history.Claimed) bool { return c.ID == "mine" }
		}, "claim /r/elections/e/leader"},
		{"a session that no process has", func(r *history.Rest, _ keyspace.Keyspace) { r.Sessions["b"] = 0 }, "identity b has 1 sessions"},
		{"a process without a session", func(r *history.Rest, _ keyspace.Keyspace) { r.Sessions["c"] = 1 }, "identity c has no session"},
		{"a lease that no session is on", func(r *history.Rest, k keyspace.Keyspace) {
			r.Leases = append(r.Leases, history.Lease{ID: 255, Keys: []string{k.Queue("q").Worker(restB)}})
		}, "lease ff is no session's"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, keys := restWorld(t)
			tc.wrong(&r, keys)
			got, err := r.Unrest()
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, tc.want) })) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
