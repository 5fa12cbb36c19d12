package leasectl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// States are coloured where colours are wanted, and a table without its colours is the one that is printed without.
func TestStatesAreColouredWhereWanted(t *testing.T) {
	t.Parallel()
	endpoint := clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints()[0]
	do := func(env map[string]string, args ...string) string {
		t.Helper()
		out, errOut, code := lookAt(t, endpoint, env, args...)
		if code != exit.OK {
			t.Fatalf("%q: exit code %d\n%s", args, code, errOut)
		}
		return out
	}
	do(nil, "enqueue", "mail", "--id", "a")
	do(nil, "enqueue", "mail", "--id", "longer", "--delay", "1h")
	do(nil, "enqueue", "mail", "--id", "b")
	do(nil, "jobs", "cancel", "mail/b")
	do(nil, "queues", "pause", "mail")
	for _, tt := range []struct {
		args string
		has  string
	}{
		{"jobs ls", "\x1b[90mscheduled\x1b[0m"},
		{"jobs ls -o wide", "\x1b[90mcancelled\x1b[0m"},
		{"jobs ls --columns state,id --no-headers", "\x1b[39mready\x1b[0m"},
		{"jobs get mail/b", "\x1b[90mcancelled\x1b[0m"},
		{"queues ls", "\x1b[33myes\x1b[0m"},
		{"doctor --window 10ms", "\x1b[32mok\x1b[0m "},
	} {
		args := strings.Fields(tt.args)
		plain := do(nil, args...)
		if sgr.MatchString(plain) {
			t.Errorf("%s: colours went to what is no terminal: %q", tt.args, plain)
		}
		got := do(map[string]string{"NO_COLOR": "1", "TERM": "dumb"}, append(args, "--color", "always")...) // the flag wins
		if !strings.Contains(got, tt.has) {
			t.Errorf("%s: %q is not in %q", tt.args, tt.has, got)
		}
		ages := regexp.MustCompile(`\d+(ms|s)`) // time goes on
		if bare := sgr.ReplaceAllString(got, ""); ages.ReplaceAllString(bare, "") != ages.ReplaceAllString(plain, "") {
			t.Errorf("%s: without its colours it is\n%s\nnot\n%s", tt.args, bare, plain)
		}
		if got := do(map[string]string{"LEASECTL_COLOR": "always"}, append(args, "--color", "never")...); sgr.MatchString(got) {
			t.Errorf("%s: coloured against --color never: %q", tt.args, got)
		}
	}
	for _, format := range []string{"json", "jsonl", "yaml", "csv", "name"} {
		if got := do(map[string]string{"LEASECTL_COLOR": "always"}, "jobs", "ls", "-o", format); sgr.MatchString(got) {
			t.Errorf("-o %s is coloured: %q", format, got)
		}
	}
	if _, errOut, code := lookAt(t, endpoint, nil, "jobs", "ls", "--color", "blue"); code != exit.Usage || !strings.Contains(errOut, `--color is "blue": want one of auto, always, never`) {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}
