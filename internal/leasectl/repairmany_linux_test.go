package leasectl

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

var tester = workqueue.By{Actor: "test"}

func (s *station) bury(ids ...string) {
	s.t.Helper()
	s.enqueue(ids...)
	for _, id := range ids {
		if _, err := admin.Bury(s.within(clitest.Patience), s.queue, id, workqueue.By{Actor: "test", Reason: "timeout"}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *station) count(states ...workqueue.State) int {
	s.t.Helper()
	n := 0
	for _, err := range s.queue.List(s.within(clitest.Patience), workqueue.Filter{States: states}) {
		if err != nil {
			s.t.Fatal(err)
		}
		n++
	}
	return n
}

// While somebody reads the question, one of the jobs is retried and claimed by others: that one is left alone, and it is
// said where it stands now.
func TestManyRepairsSkipWhatHasMoved(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.bury("01J8AA", "01J8AB", "01J8AC")
	keyboard, screen := clitest.Terminal(t)
	cmd := exec.Command("leasectl", "jobs", "retry", "--queue", testQueue, "--state", "dead", "--reason", "smtp fixed")
	cmd.Stdin = screen
	p := s.start(cmd)
	p.says("Retry 3 dead jobs? [y/N] ")

	if _, err := s.queue.Requeue(s.within(clitest.Patience), "01J8AB", tester); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := coord.OpenSession(s.within(clitest.Patience), client, coord.SessionConfig{Root: s.root, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := s.queue.Claim(s.within(clitest.Patience), session)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Delete(s.within(clitest.Patience), s.queue, "01J8AC", tester); err != nil {
		t.Fatal(err)
	}
	if _, err := keyboard.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != exit.Partly {
		t.Errorf("exit code %d, want %d", code, exit.Partly)
	}
	for _, want := range []string{
		"job/q/01J8AA retried (rev ",
		fmt.Sprintf("job/q/01J8AB CONFLICT: now claimed by %s (token %s); skipped\n", session.ID(), claim.Token()),
		"job/q/01J8AC CONFLICT: now gone; skipped\n",
	} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("stdout %q does not have %q", p.stdout, want)
		}
	}
	if !strings.Contains(p.stderr.String(), "leasectl: 1 done, 2 skipped; try: ") {
		t.Errorf("stderr %q", p.stderr)
	}
	if err := claim.Complete(s.within(clitest.Patience), nil); err != nil {
		t.Errorf("the owner of the skipped job was disturbed: %v", err)
	}
	if err := session.Close(s.within(clitest.Patience)); err != nil {
		t.Error(err)
	}
}

// A purge that is answered late deletes what was counted, and nothing that came or moved since.
func TestPurgeIsOfWhatWasCounted(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.bury("dead")
	s.enqueue("a", "b")
	keyboard, screen := clitest.Terminal(t)
	cmd := exec.Command("leasectl", "queues", "purge", testQueue)
	cmd.Stdin = screen
	p := s.start(cmd)
	p.says("Type the queue name to confirm: ")
	if !strings.Contains(p.stderr.String(), "This deletes 2 ready + 1 dead jobs of queue q in ") {
		t.Errorf("stderr %q", p.stderr)
	}
	s.enqueue("new")
	if _, err := s.queue.Requeue(s.within(clitest.Patience), "dead", tester); err != nil {
		t.Fatal(err)
	}
	if _, err := keyboard.WriteString(testQueue + "\n"); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != exit.Partly {
		t.Errorf("exit code %d, want %d", code, exit.Partly)
	}
	if !strings.Contains(p.stderr.String(), "job/q/dead CONFLICT: now ready (rev ") || p.stdout.String() != "" {
		t.Errorf("stdout %q, stderr %q", p.stdout, p.stderr)
	}
	if n := s.count(); n != 2 {
		t.Errorf("%d jobs are left, want the new one and the one that came back", n)
	}
}

// SIGINT ends a repair of many between two of them: what was begun is told, and nothing else has happened.
func TestManyRepairsStopCleanly(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	const n = 10_000 / slower
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("job-%05d", i)
	}
	s.enqueue(ids...)
	args := []string{"jobs", "cancel", "--queue", testQueue, "--state", "ready", "--yes", "-o", "name"}
	p := s.start(exec.Command("leasectl", args...))
	s.named(p, n/20)
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
	told := strings.Count(p.stdout.String(), "job/"+testQueue+"/")
	if cancelled := s.count(workqueue.StateCancelled); cancelled != told || told == n {
		t.Errorf("%d jobs were told of, %d are cancelled, of %d", told, cancelled, n)
	}
	if want := fmt.Sprintf("%d done, %d not begun\n", told, n-told); !strings.Contains(p.stderr.String(), want) {
		t.Errorf("stderr %q does not have %q", p.stderr, want)
	}

	began := time.Now()
	p = s.start(exec.Command("leasectl", args...))
	if code := p.exit(); code != exit.OK {
		t.Errorf("the rest: exit code %d", code)
	}
	t.Logf("%d jobs in %v", n-told, time.Since(began))
	if left := s.count(workqueue.StateReady); left != 0 {
		t.Errorf("%d are left", left)
	}
}

// When etcd goes away in the middle, it is said how many were done, and nobody waits for each of the others in turn.
func TestManyRepairsWithoutEtcd(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	proxy, err := faultproxy.New(s.endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s.endpoints = proxy.Endpoint()
	ids := make([]string, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf("job-%05d", i)
	}
	s.enqueue(ids...)
	p := s.start(exec.Command("leasectl", "--dial-timeout", "3s", "jobs", "cancel", "--queue", testQueue, "--all", "--yes", "-o", "name"))
	s.named(p, 100)
	proxy.Refuse()
	if code := p.exit(); code != exit.Partly {
		t.Errorf("exit code %d, want %d", code, exit.Partly)
	}
	if !strings.Contains(p.stderr.String(), " done, ") || !strings.Contains(p.stderr.String(), " not begun") {
		t.Errorf("stderr %q", p.stderr)
	}
}
