//go:build unix

package leasectl

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// SIGTERM hands the queue over to the standby at once, long before the lease would
// have run out, and ends the process with 0.
func TestDispatchHandsOver(t *testing.T) {
	t.Parallel()
	s := newStation(t, startEtcd(t, embedetcd.Config{Fast: true}))
	if err := s.queue.SetMode(s.within(patience), "dispatch", workqueue.By{Actor: "test"}); err != nil {
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
	if code := first.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	standby.signal(syscall.SIGINT)
	if code := standby.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A change of a queue whose config has moved since it was shown is a conflict, and
// changes nothing.
func TestQueueChangeConflicts(t *testing.T) {
	t.Parallel()
	s := newStation(t, startEtcd(t, embedetcd.Config{Fast: true}))
	by := workqueue.By{Actor: "other"}
	if err := s.queue.Pause(s.within(patience), by); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LEASECTL_ENDPOINTS": s.endpoints, "LEASECTL_ROOT": s.root, "LEASECTL_DIAL_TIMEOUT": "1m"}
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(name string) string { return env[name] }, aborted: make(chan struct{})}
	moved := false
	overtaken := &cobra.Command{Use: "overtaken", RunE: func(cmd *cobra.Command, _ []string) error {
		return a.runQueueChange(cmd.Context(), testQueue, mutation{}, queueChange{what: "set", past: "set", do: func(ctx context.Context, q *workqueue.Queue, seen workqueue.By) error {
			moved = true
			if err := s.queue.Pause(ctx, by); err != nil {
				return err
			}
			return q.SetMode(ctx, "dispatch", seen)
		}})
	}}
	code := a.run(s.within(patience), newRoot(a, append(verbs(a), overtaken)), []string{"overtaken"})
	if !moved || code != exitConflict || out.Len() > 0 {
		t.Errorf("got exit code %d, %q on stdout, and %q", code, out.String(), errs.String())
	}
	if st, err := s.queue.Stats(s.within(patience)); err != nil || st.Mode != "claim" || !st.Paused {
		t.Errorf("got %+v, %v", st, err)
	}
}
