package leasectl

import (
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Whoever may only read is refused every repair, with one line that says what is missing, and nothing changes.
func TestRepairsNeedTheRightToWrite(t *testing.T) {
	t.Parallel()
	endpoint := authorised(t)
	as := func(user, args string) (out, errOut string, code int) {
		return lookAt(t, endpoint, map[string]string{"LEASECTL_USER": user, "LEASECTL_PASSWORD": "pw"}, strings.Fields(args)...)
	}
	for _, args := range []string{
		"jobs cancel mail/a", "jobs edit mail/a new", "jobs edit mail/a --priority 3", "jobs move mail/a --to slow", "jobs delete mail/a --yes",
		"jobs cancel --queue mail --all --yes", "jobs delete --queue mail --state ready --yes", "queues purge mail --yes", "queues rm mail --yes",
		"queues pause mail", "queues drain mail",
	} {
		out, errOut, code := as("viewer", args)
		if code != exit.Auth || out != "" || strings.Count(errOut, "permission denied") != 1 || strings.Count(errOut, "FAILED") > 0 {
			t.Errorf("%s: exit code %d, want %d\n%s%s", args, code, exit.Auth, out, errOut)
		}
		if out, errOut, code = as("nobody", args); code != exit.Auth || out != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", args, code, exit.Auth, out, errOut)
		}
	}
	out, errOut, code := as("viewer", "jobs ls -o json")
	if code != 0 || strings.Count(out, `"id"`) != 1 || !strings.Contains(out, `"attempts_total": 0`) {
		t.Errorf("something has changed: %d\n%s%s", code, out, errOut)
	}
}
