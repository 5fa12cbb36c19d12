//go:build unix

package leasectl

import (
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// Whatever a producer has put into the trace of a job, it is worked, and work says what it left out.
func TestWorkLeavesOutATraceThatNoEnvironmentCarries(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	if _, err := s.queue.Enqueue(s.within(clitest.Patience), workqueue.Params{ID: "a", Trace: map[string]string{"traceparent": "00-ab", "tracestate": "x~y"}}); err != nil {
		t.Fatal(err)
	}
	s.rewrite("a", `"x~y"`, `"x\u0000y"`) // which no program of ours enqueues
	w := s.work(`echo "$TRACEPARENT ${TRACESTATE-unset}"`, "--once")
	w.says("q/a attempt 1 token")
	w.says("its trace has a NUL byte, or more than 8 KiB, in tracestate, which no environment can carry: left out")
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if j := s.wait("a"); string(j.Result) != "00-ab unset\n" {
		t.Errorf("result %q, state %s", j.Result, j.State)
	}
}

// A job of which no command can be told what it is goes to the dead letters with the reason, and is not tried again.
func TestWorkBuriesWhatNoEnvironmentCarries(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	for id, kind := range map[string]string{"nul": `x\u0000y`, "long": strings.Repeat("k", 200_000)} {
		if _, err := s.queue.Enqueue(s.within(clitest.Patience), workqueue.Params{ID: id, Kind: "x-y"}); err != nil {
			t.Fatal(err)
		}
		s.rewrite(id, `"x-y"`, `"`+kind+`"`) // which no program of ours enqueues
	}
	w := s.work("true", "--drain")
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for id, why := range map[string]string{"nul": "its kind has a NUL byte", "long": "its kind has 200000 bytes"} {
		if j := s.wait(id); j.State != workqueue.StateDead || j.Failures != 1 || !strings.Contains(j.Error, why) {
			t.Errorf("%s: %s after %d failures, %q", id, j.State, j.Failures, j.Error)
		}
	}
}
