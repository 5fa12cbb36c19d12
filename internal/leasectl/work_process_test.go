//go:build unix

package leasectl

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// TestWork runs real leasectl processes against one etcd, each test under a root of its own.
func TestWork(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	for name, test := range map[string]func(*testing.T, *station){
		"twenty processes share jobs exactly once": testTwentyProcesses,
		"killed worker takes its command along":    testKilledWorker,
		"frozen worker is refused":                 testFrozenWorker,
		"first SIGTERM drains":                     func(t *testing.T, s *station) { testFirstSignal(t, s, syscall.SIGTERM) },
		"first SIGINT drains":                      func(t *testing.T, s *station) { testFirstSignal(t, s, syscall.SIGINT) },
		"what does not finish is given back":       testFinish,
		"second signal aborts":                     testSecondSignal,
		"signal ends idle worker":                  testIdleWorker,
		"cancel stops the command":                 testCancel,
		"drain waits for others":                   testDrainWaits,
		"lost etcd is survived":                    testLostEtcd,
		"bulk enqueue tells where it was stopped":  testStoppedBulk,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newStation(t, etcd))
		})
	}
}

const (
	testQueue = "q"
)

func testTwentyProcesses(t *testing.T, s *station) {
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("job-%d", i))
	}
	s.enqueue(ids...)
	// A line this short is appended in one write, so lines of several processes do not mix.
	script := `echo "$LEASECTL_JOB_ID" >>ran`
	var workers []*worker
	for range 20 {
		workers = append(workers, s.work(script, "--drain"))
	}
	for i, w := range workers {
		if code := w.exit(); code != 0 {
			t.Errorf("process %d: exit code %d, want 0", i, code)
		}
	}
	runs := map[string]int{}
	f, err := os.Open(filepath.Join(s.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		runs[lines.Text()]++
	}
	for _, id := range ids {
		if runs[id] != 1 {
			t.Errorf("job %s ran %d times", id, runs[id])
		}
	}
	done := 0
	for j, err := range s.queue.List(s.within(clitest.Patience), workqueue.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if j.State == workqueue.StateDone && j.Attempt == 1 {
			done++
		}
	}
	if done != len(ids) {
		t.Errorf("%d jobs are done in one attempt, want %d", done, len(ids))
	}
}

// What a killed worker ran dies with it, and another worker takes the job over.
func testKilledWorker(t *testing.T, s *station) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets a command die with its parent")
	}
	gone := s.heldFIFO("alive")
	s.enqueue("j")
	victim := s.work(`exec 3>alive; echo started >&2; exec sleep 1000`, "--ttl", "6s")
	victim.says("started")
	heir := s.work(`echo "taken over as attempt $LEASECTL_ATTEMPT"`, "--drain")
	heir.says("session ")
	victim.signal(syscall.SIGKILL)
	wantClosed(t, "the command of the killed worker lives on", gone)
	if code := heir.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	j := s.wait("j")
	if got, want := string(j.Result), "taken over as attempt 2\n"; got != want || j.Losses != 1 {
		t.Errorf("result %q after %d losses, want %q after 1", got, j.Losses, want)
	}
}

// A worker that was frozen past its lease stops its command when it wakes, and what the command still hands in is
// refused: somebody else has done the job by then.
func testFrozenWorker(t *testing.T, s *station) {
	s.enqueue("j")
	frozen := s.work(`[ "$LEASECTL_JOB_ID" = j ] || exit 0
		trap 'echo stopping >&2; echo late; exit 0' TERM; echo started >&2; while :; do sleep 0.05; done`, "--ttl", "2s")
	frozen.says("started")
	frozen.signal(syscall.SIGSTOP)
	heir := s.work(`echo in time`, "--drain")
	if code := heir.exit(); code != 0 {
		t.Errorf("exit code of the heir %d, want 0", code)
	}
	frozen.signal(syscall.SIGCONT)
	frozen.says("session LOST")
	frozen.says("stopping")
	frozen.says("late result REFUSED")
	if got, want := string(s.wait("j").Result), "in time\n"; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if got, want := s.refusal("j").Size, len("late\n"); got != want {
		t.Errorf("evidence of a refused result of %d bytes, want %d", got, want)
	}
	// It goes on under a new session. A busy machine may cost it that one too, and an attempt with it.
	s.enqueue("next")
	frozen.says("q/next attempt ")
	frozen.signal(syscall.SIGTERM)
	if code := frozen.exit(); code != 0 {
		t.Errorf("exit code of the woken worker %d, want 0", code)
	}
}

func testFirstSignal(t *testing.T, s *station, sig syscall.Signal) {
	s.ask()
	s.enqueue("running", "waiting")
	w := s.work(`trap '' INT TERM; echo started >&2; read answer <go; echo "$answer"`, "--finish", "10m")
	w.says("started")
	w.signal(sig)
	w.says("finishing 1 job within 10m0s; once more aborts")
	s.tell("drained\n")
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got, want := string(s.wait("running").Result), "drained\n"; got != want {
		t.Errorf("result %q, want %q", got, want)
	}
	if j, err := s.queue.Get(t.Context(), "waiting"); err != nil || j.Attempt != 0 {
		t.Errorf("the next job was begun while draining: %+v, %v", j, err)
	}
}

// After the first signal commands have a while to finish; then they are ended, and their jobs go to others.
func testFinish(t *testing.T, s *station) {
	gone := s.heldFIFO("alive")
	s.enqueue("j")
	w := s.work(`exec 3>alive; echo started >&2; exec sleep 90`, "--finish", "100ms")
	w.says("started")
	w.signal(syscall.SIGTERM)
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	wantClosed(t, "the command lives on", gone)
	j, err := s.queue.Get(t.Context(), "j")
	if err != nil || j.State != workqueue.StateReady || j.Failures != 0 || j.Losses != 0 {
		t.Errorf("the job was not given back uncounted: %+v, %v", j, err)
	}
}

func testSecondSignal(t *testing.T, s *station) {
	gone := s.heldFIFO("alive")
	s.enqueue("j")
	w := s.work(`exec 3>alive; trap '' INT TERM; echo started >&2; while :; do sleep 0.05; done`, "--grace", "1h")
	w.says("started")
	w.signal(syscall.SIGTERM)
	w.says("once more aborts")
	w.signal(syscall.SIGINT)
	if code := w.exit(); code != exit.Interrupted {
		t.Errorf("exit code %d, want %d", code, exit.Interrupted)
	}
	wantClosed(t, "the command lives on", gone)
	j, err := s.queue.Get(t.Context(), "j")
	if err != nil || j.State != workqueue.StateReady || j.Failures != 0 || j.Losses != 0 {
		t.Errorf("the job was not given back uncounted: %+v, %v", j, err)
	}
}

// A worker that has nothing to do ends at the first signal as well.
func testIdleWorker(t *testing.T, s *station) {
	w := s.work("true")
	w.says("session ")
	w.signal(syscall.SIGTERM)
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// Somebody else's cancel stops the command at once.
func testCancel(t *testing.T, s *station) {
	gone := s.heldFIFO("alive")
	s.enqueue("j")
	w := s.work(`exec 3>alive; echo started >&2; exec sleep 1000`)
	w.says("started")
	if _, err := s.queue.Cancel(t.Context(), "j", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, "the command lives on", gone)
	w.says("the job was cancelled")
}

// Drain counts what others have claimed.
func testDrainWaits(t *testing.T, s *station) {
	s.ask()
	s.enqueue("j")
	busy := s.work(`echo started >&2; read answer <go`)
	busy.says("started")
	drain := s.work(`true`, "--drain")
	drain.says("session ")
	select {
	case <-drain.done:
		t.Error("drained while another works")
	case <-time.After(300 * time.Millisecond): // no event tells that nothing happens
	}
	s.tell("done\n")
	if code := drain.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// An etcd that is gone for longer than the lease costs the session and stops the command; when it is back, work goes on.
func testLostEtcd(t *testing.T, s *station) {
	proxy, err := faultproxy.New(s.endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s.endpoints = proxy.Endpoint()
	gone := s.heldFIFO("alive")
	s.enqueue("j")
	w := s.work(`[ "$LEASECTL_ATTEMPT" = 1 ] || exit 0; exec 3>alive; echo started >&2; exec sleep 1000`, "--ttl", "6s")
	w.says("started")
	proxy.Refuse()
	w.says("session LOST")
	wantClosed(t, "the command goes on without a session", gone)
	proxy.Heal()
	if j := s.wait("j"); j.State != workqueue.StateDone || j.Failures != 0 || j.Losses != 0 {
		t.Errorf("the job is %s with %d failures and %d losses, want done, 0 and 0", j.State, j.Failures, j.Losses)
	}
	w.signal(syscall.SIGTERM)
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func testStoppedBulk(t *testing.T, s *station) {
	cmd := exec.Command("leasectl", "enqueue", testQueue, "-")
	lines, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := s.start(cmd)
	if _, err := io.WriteString(lines, "1\n2\n3\n"); err != nil {
		t.Fatal(err)
	}
	// The names come as the jobs are enqueued, not at the end of stdin.
	if got := s.named(w, 3); got != 3 {
		t.Errorf("%d jobs named while stdin is open, want 3", got)
	}
	w.signal(syscall.SIGINT)
	if code := w.exit(); code != exit.Interrupted {
		t.Errorf("exit code %d, want %d", code, exit.Interrupted)
	}
	w.says("interrupted by SIGINT")
}
