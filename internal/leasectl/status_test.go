package leasectl

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

// lookAt runs a command against endpoints, with more of the environment.
func lookAt(t *testing.T, endpoint string, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errOut, getenv: func(name string) string {
		switch name {
		case "LEASECTL_ENDPOINTS":
			return endpoint
		case "LEASECTL_CONTEXT":
			return noContext
		case "LEASECTL_DIAL_TIMEOUT":
			return "1m"
		}
		return env[name]
	}}
	code = a.run(ctx, newRoot(a, verbs(a)), args)
	return out.String(), errOut.String(), code
}

// Without a majority a screen that one member fills in says so, and the exit code too.
func TestStatusWithoutQuorumSaysUnverified(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t, embedetcd.Config{Fast: true, Members: 3})
	for _, m := range etcd.Members()[1:] {
		m.Stop()
	}
	endpoint := etcd.Members()[0].Endpoint()
	out, errOut, code := lookAt(t, endpoint, nil, "status", "--dial-timeout", "3s")
	if code != exitUnreachable || !strings.Contains(out, "unverified (no quorum)") || !strings.Contains(out, "! E4 etcd has no leader") ||
		!strings.HasPrefix(errOut, "leasectl: status is unverified (no quorum): ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	out, errOut, code = lookAt(t, endpoint, nil, "status", "--dial-timeout", "3s", "-o", "json")
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil || code != exitUnreachable {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errOut)
	}
	schema, err := compileSchema("status")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil || value.(map[string]any)["verified"] != false {
		t.Errorf("%v\n%s", err, out)
	}
	// Nobody there at all is an error, and no screen.
	etcd.Members()[0].Stop()
	if out, errOut, code := lookAt(t, endpoint, nil, "status", "--dial-timeout", "1s"); code != exitUnreachable || out != "" || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

// The problems of a queue, each with the command that helps.
func TestProblemsNameWhatHelps(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-26*time.Hour), now.Add(-time.Hour)
	for name, tt := range map[string]struct {
		q    queueItem
		want string // CODE MESSAGE | RUN
	}{
		"calm":         {queueItem{Name: "q", Ready: 1, Workers: 1, Oldest: &short}, ""},
		"orphan":       {queueItem{Name: "q/r", Orphan: 1, orphans: []string{"a"}}, "J1 1 claim by a gone session (job q%2Fr/a) | leasectl doctor --fix"},
		"orphans":      {queueItem{Name: "q", Orphan: 5, orphans: []string{"a", "b", "c", "d"}}, "J1 5 claims by gone sessions (jobs q/a, q/b, q/c, ...) | leasectl doctor --fix"},
		"backlog":      {queueItem{Name: "a b", Ready: 2, Oldest: &short}, "Q1 queue a%20b has 2 ready jobs, the oldest for 60m, and nobody who works it | leasectl work 'a b' -- CMD"},
		"by script":    {queueItem{Name: "q", Ready: 2, Claimed: 1, Oldest: &short}, ""},
		"paused":       {queueItem{Name: "q", Paused: true, PausedAt: &short, Ready: 2, Oldest: &short}, ""},
		"paused long":  {queueItem{Name: "q", Paused: true, PausedAt: &long, PausedBy: "ana", PausedWhy: "db"}, `Q2 queue q paused 26h by ana ("db") | leasectl queues resume q`},
		"paused, when": {queueItem{Name: "q", Paused: true, PausedBy: "ana"}, ""},
		"newer":        {queueItem{Name: "q", Unreadable: 3, newer: 3}, "J7 3 records of queue q newer than this program | use the leasectl of that version, and upgrade the workers of q"},
		"both":         {queueItem{Name: "q", Unreadable: 3, newer: 1}, "J2 2 records of queue q cannot be read | leasectl doctor --fix\nJ7 1 record of queue q newer than this program | use the leasectl of that version, and upgrade the workers of q"},
		"unreadable":   {queueItem{Name: "q", Unreadable: 1}, "J2 1 record of queue q cannot be read | leasectl doctor --fix"},
	} {
		var got []string
		for _, p := range problemsOf([]queueItem{tt.q}, now) {
			got = append(got, p.Code+" "+p.Message+" | "+p.Run)
		}
		if text := strings.Join(got, "\n"); text != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, tt.want)
		}
	}
}

// What cannot be read, and what a newer program wrote, status and doctor call the same, with the same way out.
func TestStatusAndDoctorSayTheSame(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, startEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	r.put(r.queue("a b").Config(), "nonsense")
	r.put(r.queue("new").Job("x"), `{"w":"8888888888888888","v":99,"id":"x"}`)
	r.put(r.queue("new").Dead("y"), `{"w":"8888888888888888","v":99,"id":"y"}`)
	r.put(r.queue("old").Dead("z"), "garbage")
	// K1 and K3, which no count of records is about.
	r.put(r.queue("old").Prefix()+"jobs/zz/x", "garbage")
	r.put(r.queue("old").Prefix()+"jobs/x", "garbage")
	r.put(r.queue("old").Dead("n\u001b"), "garbage")
	status, errOut, code := r.leasectl("status")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	rep := r.doctor(exitDoctor)
	for _, p := range []struct{ code, what, run, doctor string }{
		{"Q4", "config of queue a%20b cannot be read", "leasectl doctor --fix", ""},
		{"J7", "2 records of queue new newer than this program", "use the leasectl of that version, and upgrade the workers of new", ""},
		{"J2", "1 record of queue old cannot be read", "leasectl doctor --fix", "1 undecodable record"},
	} {
		for text, what := range map[string]string{status: p.what, rep: cmp.Or(p.doctor, p.what)} {
			i := strings.Index(text, p.code+" "+what)
			if i < 0 {
				t.Errorf("%s %s is not in\n%s", p.code, what, text)
				continue
			}
			if line, _, _ := strings.Cut(text[i:], "\n"); !strings.HasSuffix(line, "run: "+p.run) {
				t.Errorf("another way out: %s", line)
			}
		}
	}
}
