//go:build unix

package leasectl

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// Whatever waits for etcd says in one line that there is none, and in one that it is back, and goes on.
func TestWhatWaitsTellsOfASilentEtcd(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	proxy, err := faultproxy.New(s.endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s.endpoints = proxy.Endpoint()
	if err := s.queue.SetMode(s.within(clitest.Patience), "dispatch", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	events := s.start(exec.Command("leasectl", "events"))
	list := s.start(exec.Command("leasectl", "queues", "ls", "-w"))
	dispatch := s.start(exec.Command("leasectl", "dispatch", testQueue, "--ttl", "2s"))
	work := s.work("true", "--ttl", "2s")
	all := []*worker{events, list, dispatch, work}
	dispatch.says("dispatcher of q: leader")
	work.says("session ")
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for i := 0; events.stdout.String() == "" || list.stdout.String() == ""; i++ { // until they watch
		s.enqueue(fmt.Sprint("before-", i))
		<-again.C
	}
	s.enqueue("at-the-last-moment") // the look at it fails
	proxy.Refuse()
	for _, w := range all {
		w.says("no answer from etcd for ")
	}
	proxy.Heal()
	for _, w := range all {
		w.says("etcd answers again, after ")
	}
	s.enqueue("after")
	s.wait("after")
	for _, w := range all {
		if got := w.stderr.String(); strings.Contains(got, `{"`) {
			t.Errorf("%v says\n%s", w.cmd.Args, got)
		}
		w.signal(syscall.SIGINT)
		want := exit.OK
		if w == events || w == list {
			want = exit.Interrupted
		}
		if code := w.exit(); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", w.cmd.Args, code, want, w.stderr)
		}
	}
}
