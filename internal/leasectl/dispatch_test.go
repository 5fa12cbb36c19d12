//go:build unix

package leasectl

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// SIGTERM hands the queue over to the standby at once, long before the lease would
// have run out, and ends the process with 0.
func TestDispatchHandsOver(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	if err := s.queue.SetMode(s.within(clitest.Patience), "dispatch", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	dispatch := func() *worker {
		w := s.start(exec.Command("leasectl", "dispatch", testQueue, "--ttl", "60s"))
		w.says("dispatcher of " + testQueue + ": leader")
		return w
	}
	first := dispatch()
	s.work("exit 0")
	s.enqueue("before")
	s.wait("before")
	standby := dispatch() // it sees that the other leads
	began := time.Now()
	first.signal(syscall.SIGTERM)
	s.enqueue("after")
	s.wait("after")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the standby waited for %v", took)
	}
	if code := first.exit(); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	standby.signal(syscall.SIGINT)
	if code := standby.exit(); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
}
