package leasectl

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// Who interrupts a question has not agreed: nothing is changed, at once, without another key, and the exit code is that of
// the signal.
func TestInterruptedQuestionsChangeNothing(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.bury("dead")
	config := s.dir + "/config.yaml"
	if err := os.WriteFile(config, []byte("contexts:\n  careful:\n    confirm: \"yes\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		says string
		sig  syscall.Signal
		want int
		args string
	}{
		{"Retry 1 dead job? [y/N] ", syscall.SIGINT, exit.Interrupted, "jobs retry --queue q --state dead"},
		{"Type the job's QUEUE/ID to confirm: ", syscall.SIGINT, exit.Interrupted, "jobs delete q/dead"},
		{"Type the queue name to confirm: ", syscall.SIGTERM, 143, "queues purge q"},
		{"in context careful. [y/N] ", syscall.SIGINT, exit.Interrupted, "jobs requeue q/dead --context careful"},
	} {
		_, screen := clitest.Terminal(t)
		cmd := exec.Command("env", append([]string{"LEASECTL_CONFIG=" + config, "leasectl"}, strings.Fields(test.args)...)...)
		cmd.Stdin = screen
		p := s.start(cmd)
		p.says(test.says)
		p.signal(test.sig)
		if code := p.exit(); code != test.want {
			t.Errorf("%s: exit code %d, want %d\n%s", test.args, code, test.want, p.stderr)
		}
		if got := p.stderr.String(); !strings.Contains(got, "\nnothing changed\nleasectl: interrupted by SIG") || p.stdout.String() != "" {
			t.Errorf("%s: stdout %q, stderr %q", test.args, p.stdout, got)
		}
	}
	if n := s.count(workqueue.StateDead); n != 1 {
		t.Errorf("%d dead jobs are left, want 1", n)
	}
}
