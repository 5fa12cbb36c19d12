//go:build unix

package leasectl

import (
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// Whatever a producer has put into the trace of a job, it is worked, and work says what it left out.
func TestWorkLeavesOutATraceThatNoEnvironmentCarries(t *testing.T) {
	t.Parallel()
	s := newStation(t, startEtcd(t, embedetcd.Config{Fast: true}))
	if _, err := s.queue.Enqueue(s.within(patience), workqueue.Params{ID: "a", Trace: map[string]string{"traceparent": "00-ab", "tracestate": "x~y"}}); err != nil {
		t.Fatal(err)
	}
	s.rewrite("a", `"x~y"`, `"x\u0000y"`) // which no program of ours enqueues
	w := s.work(`echo "$TRACEPARENT ${TRACESTATE-unset}"`, "--once")
	w.says("q/a attempt 1 token")
	w.says("its trace has a NUL byte in tracestate, which no environment can carry: left out")
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if j := s.wait("a"); string(j.Result) != "00-ab unset\n" {
		t.Errorf("result %q, state %s", j.Result, j.State)
	}
}
