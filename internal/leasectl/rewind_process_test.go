//go:build unix

package leasectl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// copied replaces one directory by another while the only member is stopped.
func (s *station) copied(from, to string) {
	s.t.Helper()
	member := s.etcd.Members()[0]
	member.Stop()
	if err := os.RemoveAll(to); err != nil {
		s.t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
	if err := member.Restart(s.within(clitest.Patience)); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits for a line on stdout that contains text.
func (w *worker) shows(text string) {
	w.t.Helper()
	select {
	case <-w.stdout.When(text):
	case <-time.After(clitest.Patience):
		w.t.Fatalf("%v did not show %q; it said\n%s", w.cmd.Args, text, w.stderr)
	}
}

// Whoever watches goes on when etcd is put back to an older data directory: they say so, and show what it has now, also
// when its history has passed what they saw before they are connected again.
func TestWhatWatchesGoesOnAfterARestore(t *testing.T) {
	for name, passed := range map[string]bool{"and is short": false, "and has passed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
			proxy, err := faultproxy.New(s.endpoints)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { proxy.Close() })
			at := []string{"--endpoints", s.endpoints, "--root", s.root}
			enqueue := func(id string) {
				t.Helper()
				if got := invoke(t, append(at, "enqueue", testQueue, "--id", id)...); got.code != exit.OK {
					t.Fatalf("enqueue %s: %+v", id, got)
				}
			}
			enqueue("kept")
			data, backup := filepath.Join(s.etcd.Dir(), s.etcd.Members()[0].Name()), filepath.Join(t.TempDir(), "backup")
			s.copied(data, backup)
			s.endpoints = proxy.Endpoint()
			events := s.start(exec.Command("leasectl", "events"))
			list := s.start(exec.Command("leasectl", "jobs", "ls", testQueue, "-w"))
			waits := s.start(exec.Command("leasectl", "jobs", "wait", testQueue+"/kept"))
			watches := s.start(exec.Command("leasectl", "jobs", "watch", testQueue+"/kept"))
			observes := s.start(exec.Command("leasectl", "elections", "observe", "e"))
			list.shows("kept")
			observes.shows("none")
			watches.shows("kept")
			again := time.NewTicker(50 * time.Millisecond)
			defer again.Stop()
			for i := 0; events.stdout.String() == ""; i++ { // until it watches
				enqueue(fmt.Sprint("lost-", i))
				<-again.C
			}
			enqueue("seen-last")
			events.shows("seen-last")
			list.shows("seen-last")
			opened := invoke(t, append(at, "session", "open", "--ttl", "10m")...)
			if got := invoke(t, append(at, "elections", "acquire", "e", "--session", strings.TrimSpace(opened.out))...); got.code != exit.OK {
				t.Fatalf("acquire: %+v after %+v", got, opened)
			}
			observes.shows("leader")

			proxy.Refuse()
			s.copied(backup, data)
			enqueue("put-early")
			for i := 0; passed && i < 30; i++ {
				enqueue(fmt.Sprint("more-", i))
			}
			proxy.Heal()
			events.says("history went back")
			if !passed {
				list.says("history went back")
				observes.says("history went back")
			}
			list.shows("put-early")
			enqueue("after")
			events.shows("after")
			list.shows("after")
			if got := invoke(t, append(at, "jobs", "cancel", testQueue+"/kept", "--yes")...); got.code != exit.OK {
				t.Fatalf("cancel: %+v", got)
			}
			if code := waits.exit(); code != exit.OK {
				t.Errorf("jobs wait: exit code %d\n%s", code, waits.stderr)
			}
			if code := watches.exit(); code != exit.Failed {
				t.Errorf("jobs watch: exit code %d\n%s", code, watches.stderr)
			}
		})
	}
}
