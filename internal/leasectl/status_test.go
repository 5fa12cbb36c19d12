package leasectl

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// lookAt runs a command against endpoints, with more of the environment.
func lookAt(t *testing.T, endpoint string, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	var out, errOut bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errOut, Getenv: func(name string) string {
		switch name {
		case "LEASECTL_ENDPOINTS":
			return endpoint
		case "LEASECTL_CONTEXT":
			return contexts.None
		case "LEASECTL_DIAL_TIMEOUT":
			return "1m"
		}
		return env[name]
	}}
	code = run(ctx, a, newRoot(a, verbs(a)), args)
	return out.String(), errOut.String(), code
}

// Without a majority a screen that one member fills in says so, and the exit code too.
func TestStatusWithoutQuorumSaysUnverified(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, Members: 3})
	for _, m := range etcd.Members()[1:] {
		m.Stop()
	}
	endpoint := etcd.Members()[0].Endpoint()
	out, errOut, code := lookAt(t, endpoint, nil, "status", "--dial-timeout", "3s")
	if code != exit.Unreachable || !strings.Contains(out, "unverified (no quorum)") || !strings.Contains(out, "! E4 etcd has no leader") ||
		!strings.HasPrefix(errOut, "leasectl: status is unverified (no quorum): ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	out, errOut, code = lookAt(t, endpoint, nil, "status", "--dial-timeout", "3s", "-o", "json")
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil || code != exit.Unreachable {
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
	if out, errOut, code := lookAt(t, endpoint, nil, "status", "--dial-timeout", "1s"); code != exit.Unreachable || out != "" || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

// What cannot be read, and what a newer program wrote, status and doctor call the same, with the same way out.
func TestStatusAndDoctorSayTheSame(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
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
	rep := r.doctor(exit.Doctor)
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
