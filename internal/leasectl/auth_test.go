package leasectl

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// guarded is an etcd with authentication, and users who have one role each.
type guarded struct {
	t        *testing.T
	endpoint string
}

// startGuarded makes the roles of queue mail with the command itself, as root.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	g := &guarded{t, etcd.Endpoints()[0]}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.RoleAdd(ctx, "root"))
	must(client.UserAdd(ctx, "root", "pw"))
	must(client.UserGrantRole(ctx, "root", "root"))
	g.wants("", 0, "auth", "roles", "--queue", "mail", "--as", "node-a", "--apply", "--yes")
	g.wants("", 0, "auth", "roles", "--queue", "mail", "--as", "node-a", "--apply", "--yes") // again changes nothing
	for user, role := range map[string]string{
		"viewer": "leasekit:/leasekit/:viewer", "operator": "leasekit:/leasekit/:operator", "producer": "leasekit:/leasekit/:mail:producer:node-a",
		"worker": "leasekit:/leasekit/:mail:worker:node-a", "dispatcher": "leasekit:/leasekit/:mail:dispatcher:node-a",
	} {
		must(client.UserAdd(ctx, user, "pw"))
		must(client.UserGrantRole(ctx, user, role))
	}
	must(client.AuthEnable(ctx))
	return g
}

// run runs leasectl as a user.
func (g *guarded) run(user, in string, args ...string) (code int, out, errOut string) {
	g.t.Helper()
	env := map[string]string{"LEASECTL_ENDPOINTS": g.endpoint, "LEASECTL_CONTEXT": contexts.None, "LEASECTL_DIAL_TIMEOUT": "1m"}
	if user != "" {
		env["LEASECTL_USER"], env["LEASECTL_PASSWORD"] = user, "pw"
	}
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(g.t.Context(), clitest.Patience)
	defer cancel()
	a := &cli.App{In: strings.NewReader(in), Out: &stdout, Err: &stderr, Getenv: func(name string) string { return env[name] }}
	code = run(ctx, a, newRoot(a, verbs(a)), args)
	return code, stdout.String(), stderr.String()
}

func (g *guarded) wants(user string, want int, args ...string) (out string) {
	g.t.Helper()
	code, out, errOut := g.run(user, "", args...)
	if code != want {
		g.t.Errorf("%s: %s: exit code %d, want %d: %s", user, strings.Join(args, " "), code, want, errOut)
	}
	if want != 0 && want != exit.Doctor && args[0] != "auth" && out != "" {
		g.t.Errorf("%s: %s: a refusal printed %q on stdout", user, strings.Join(args, " "), out)
	}
	return out
}

// Each role can do what it is for, and is refused the rest, with exit code 4.
func TestRolesAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	g.wants("operator", 0, "enqueue", "mail", "x", "--id", "one")
	g.wants("operator", 0, "enqueue", "other", "x", "--id", "one")

	enqueue := []string{"enqueue", "mail", strings.Repeat("x", 2000), "--as", "node-a", "--id"}
	work := []string{"work", "mail", "--once", "--as", "node-a", "--", "true"}
	for _, tt := range []struct {
		user string
		can  [][]string
		not  [][]string
	}{
		{"viewer", [][]string{
			{"jobs", "ls"}, {"jobs", "get", "mail/one"}, {"queues", "ls"}, {"locks", "ls"}, {"elections", "ls"},
			{"auth", "can-i", "view", "mail"}, {"export", "mail"},
		}, [][]string{
			append(enqueue, "v"), work, {"jobs", "cancel", "mail/one"}, {"queues", "pause", "mail"},
			{"auth", "can-i", "enqueue", "mail"}, {"auth", "roles", "--queue", "mail", "--apply", "--yes"},
		}},
		{"producer", [][]string{
			append(enqueue, "p"), {"jobs", "get", "mail/p"}, {"auth", "can-i", "enqueue", "mail", "--as", "node-a"},
		}, [][]string{
			{"enqueue", "other", "x"}, work, {"queues", "pause", "mail"}, {"jobs", "get", "other/one"},
			{"auth", "can-i", "work", "mail"}, {"session", "open", "--as", "node-a"},
		}},
		{"worker", [][]string{
			append(enqueue, "w"), work, {"auth", "can-i", "work", "mail", "--as", "node-a"},
			{"session", "open", "--as", "node-a"},
		}, [][]string{
			{"enqueue", "other", "x"}, {"work", "other", "--once", "--as", "node-a", "--", "true"}, {"queues", "pause", "mail"},
			{"session", "open", "--as", "node-b"}, {"auth", "can-i", "work", "mail", "--as", "node-b"}, {"auth", "can-i", "dispatch", "mail"},
			{"lock", "door", "--timeout", "1s", "--", "true"},
		}},
		{"dispatcher", [][]string{
			append(enqueue, "d"), work, {"auth", "can-i", "dispatch", "mail", "--as", "node-a"},
		}, [][]string{
			{"work", "other", "--once", "--as", "node-a", "--", "true"}, {"queues", "pause", "mail"},
		}},
		{"operator", [][]string{
			{"queues", "pause", "mail"}, {"queues", "resume", "mail"}, {"jobs", "cancel", "other/one"},
			{"lock", "door", "--", "true"}, {"auth", "can-i", "repair", "mail"},
		}, [][]string{
			{"auth", "roles", "--queue", "mail", "--apply", "--yes"}, {"jobs", "ls", "--root", "/elsewhere/"},
		}},
	} {
		t.Run(tt.user, func(t *testing.T) {
			g := &guarded{t, g.endpoint}
			for _, args := range tt.can {
				g.wants(tt.user, 0, args...)
			}
			for _, args := range tt.not {
				want := exit.Auth
				if args[0] == "lock" {
					want = exit.Own
				}
				g.wants(tt.user, want, args...)
			}
		})
	}
	if out := g.wants("worker", 0, "auth", "whoami", "-o", "json"); !strings.Contains(out, `"leasekit:/leasekit/:mail:worker:node-a"`) {
		t.Errorf("whoami printed %s", out)
	}
	g.wants("root", 0, "auth", "can-i", "repair", "anything")
	code, _, errOut := g.run("", "", "jobs", "ls")
	if code != exit.Auth || strings.Count(errOut, "\n") != 1 {
		t.Errorf("nobody: exit code %d, %s", code, errOut)
	}
}

// A worker whose password was changed ends with the exit code of that, so that a supervisor starts it with the new one.
func TestWorkEndsWhenItsLoginIsRefused(t *testing.T) {
	g := startGuarded(t)
	cmd := exec.Command("leasectl", "work", "mail", "--as", "node-a", "--ttl", "1m", "--", "true")
	s := &station{t: t, root: connect.DefaultRoot, dir: t.TempDir(), endpoints: g.endpoint}
	t.Setenv("LEASECTL_USER", "worker")
	t.Setenv("LEASECTL_PASSWORD", "pw")
	w := s.start(cmd)
	w.says("session ")
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{g.endpoint}, Username: "root", Password: "pw", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if _, err := root.UserChangePassword(t.Context(), "worker", "new"); err != nil {
		t.Fatal(err)
	}
	w.says("etcd refuses the login")
	if code := w.exit(); code != exit.Auth {
		t.Errorf("exit code %d, want %d", code, exit.Auth)
	}
}
