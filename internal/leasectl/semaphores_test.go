package leasectl

import (
	"context"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// holder opens a session on an etcd of its own; a minute bounds what is done with it.
func holder(t *testing.T) (context.Context, *embedetcd.Cluster, *coord.Session) {
	t.Helper()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	t.Cleanup(cancel)
	s, err := coord.OpenSession(ctx, etcdtest.NewClient(t, etcd.Endpoints()), coord.SessionConfig{Identity: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(ctx)) })
	return ctx, etcd, s
}

// A semaphore's permits are looked at and taken as locks are, each by its number.
func TestSemaphoresAreLookedAtAndTaken(t *testing.T) {
	t.Parallel()
	ctx, etcd, s := holder(t)
	var taken *coord.Hold // of gpu/1
	for i, name := range []string{"a/b", "gpu", "gpu"} {
		h, err := coord.NewSemaphore(s, name, min(i+1, 2)).Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Fence().Key, "gpu/slots/1") {
			taken = h
		}
	}
	for _, tt := range []struct {
		args string
		code int
		out  string // what stdout begins with
		says string // on stderr
	}{
		{"semaphores ls", exit.OK, "NAME  PERMIT  STATE  OWNER", ""},
		{"semaphores ls -o name", exit.OK, "semaphore/a%2Fb/0\nsemaphore/gpu/0\nsemaphore/gpu/1\n", ""},
		{"semaphores ls --columns name,permit,state,waiters", exit.OK, "NAME  PERMIT  STATE  WAITERS\na/b   0       held   0\ngpu   0       held   0\ngpu   1       held   0\n", ""},
		{"semaphores get gpu --columns permit --no-headers", exit.OK, "0\n1\n", ""},
		{"semaphores get gpu/1 --columns permit --no-headers", exit.OK, "1\n", ""},
		{"semaphores get semaphore/a%2Fb/0 --columns name --no-headers", exit.OK, "a/b\n", ""},
		{"semaphores get a%2Fb -o name", exit.OK, "semaphore/a%2Fb/0\n", ""},
		{"semaphores get nothing", exit.NotFound, "", `nobody has or waits for a permit of semaphore "nothing"; try: leasectl semaphores ls`},
		{"semaphores get gpu/7", exit.NotFound, "", "semaphore"},
		{"semaphores get", exit.Usage, "", "SEMAPHORE is missing"},
		{"semaphores release gpu/1", exit.Usage, "", "only the holder can give a semaphore back, with --token; taking it from him needs --force"},
		{"semaphores release gpu --force --yes", exit.Usage, "", `"gpu" is not NAME/NUMBER of a permit`},
		{"semaphores release gpu/x --force --yes", exit.Usage, "", "is not NAME/NUMBER"},
		{"semaphores release gpu/1 --force", exit.Usage, "", "needs a confirmation"},
		{"semaphores release gpu/1 --force --yes --token 1", exit.Conflict, "", "it has moved: its token is"},
		{"semaphores release gpu/1 --force --dry-run", exit.OK, "", "would release semaphore/gpu/1 from holder."},
		{"semaphores release gpu/7 --force --yes", exit.NotFound, "", `nobody has or waits for semaphore "gpu/7"`},
		{"semaphores release semaphore/gpu/1 --force --yes --reason stuck", exit.OK, "semaphore/gpu/1 released (free)\n", "release semaphore/gpu/1 from holder."},
		{"semaphores get gpu/1 --columns state --no-headers", exit.OK, "free\n", ""},
		{"semaphores release gpu/1 --force --yes", exit.Conflict, "", "nobody has it"},
	} {
		out, errOut, code := lookAt(t, etcd.Endpoints()[0], nil, strings.Fields(tt.args)...)
		if code != tt.code || !strings.HasPrefix(out, tt.out) || tt.out == "" && out != "" || !strings.Contains(errOut, tt.says) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, out, errOut)
		}
	}
	select {
	case <-taken.Done():
	case <-ctx.Done():
		t.Error("the holder was not told")
	}
}

// What a list prints of a permit, its reference or the cell of its name, is taken back and means that one.
func TestPermitsAreTakenBackAsPrinted(t *testing.T) {
	t.Parallel()
	ctx, etcd, s := holder(t)
	names := map[string]string{ // as -o name prints them
		"gpu": "gpu/0", "a/b": "a%2Fb/0", "my own": "my%20own/0", "100%": "100%25/0", "x%2Fy": "x%252Fy/0", "n/7": "n%2F7/0", "n": "n/0",
		"semaphore": "semaphore/0", "semaphore/0": "semaphore%2F0/0", "0": "0/0", "-rf": "-rf/0", "zw\u200bid": "zw%E2%80%8Bid/0",
	}
	for name := range names {
		if _, err := coord.NewSemaphore(s, name, 1).Acquire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	get := func(args ...string) string {
		out, errOut, code := lookAt(t, etcd.Endpoints()[0], nil, append([]string{"semaphores"}, args...)...)
		if code != exit.OK {
			t.Errorf("%q: exit code %d: %s", args, code, errOut)
		}
		return out
	}
	for name, ref := range names {
		want := "semaphore/" + ref + "\n"
		if !strings.Contains("\n"+get("ls", "-o", "name"), "\n"+want) {
			t.Errorf("%q is not listed as %s", name, want)
		}
		cell := strings.TrimSpace(get("get", "semaphore/"+ref, "--columns", "name", "--no-headers"))
		for _, printed := range []string{"semaphore/" + ref, cell} {
			if got := get("get", printed, "-o", "name"); got != want {
				t.Errorf("%q, printed as %q, is %q, want %q", name, printed, got, want)
			}
		}
		if out := get("release", "semaphore/"+ref, "--force", "--yes"); !strings.HasPrefix(out, strings.TrimSuffix(want, "\n")+" released") {
			t.Errorf("release of %q: %s", name, out)
		}
	}
}
