//go:build unix

package leasectl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/keyspace"
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

// station is one queue, and real leasectl processes on it.
type station struct {
	client *clientv3.Client
	t      *testing.T
	etcd   *embedetcd.Cluster
	root   string
	queue  *workqueue.Queue
	dir    string

	endpoints string // what the processes are told
}

const (
	testQueue = "q"
)

func newStation(t *testing.T, etcd *embedetcd.Cluster) *station {
	t.Helper()
	s := &station{t: t, etcd: etcd, root: "/" + filepath.Base(t.Name()) + "/", dir: t.TempDir(), endpoints: strings.Join(etcd.Endpoints(), ",")}
	client, err := clientv3.New(clientv3.Config{Endpoints: s.etcd.Endpoints(), Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s.client = client
	s.queue, err = workqueue.Open(s.within(clitest.Patience), client, workqueue.Config{Queue: testQueue, Root: s.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.queue.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// rewrite changes the record of a live job by hand.
func (s *station) rewrite(id, old, now string) {
	s.t.Helper()
	space, err := keyspace.New(s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	key := space.Queue(testQueue).Job(id)
	resp, err := s.client.Get(s.within(clitest.Patience), key)
	if err != nil || len(resp.Kvs) != 1 || !strings.Contains(string(resp.Kvs[0].Value), old) {
		s.t.Fatalf("job %s is not as it was enqueued: %v, %v", id, resp, err)
	}
	if _, err := s.client.Put(s.within(clitest.Patience), key, strings.Replace(string(resp.Kvs[0].Value), old, now, 1)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *station) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *station) enqueue(ids ...string) {
	s.t.Helper()
	items := make([]workqueue.Params, len(ids))
	for i, id := range ids {
		items[i] = workqueue.Params{ID: id}
	}
	results, err := s.queue.EnqueueBatch(s.within(clitest.Patience), items)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

func (s *station) wait(id string) *workqueue.Job {
	s.t.Helper()
	j, err := s.queue.Wait(s.within(clitest.Patience), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// refusal waits for the evidence of a refused result, which is written behind.
func (s *station) refusal(id string) admin.Refusal {
	s.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := s.within(clitest.Patience); ; {
		found, err := admin.Refusals(ctx, s.queue)
		if err != nil {
			s.t.Fatal(err)
		}
		if r, ok := found[id]; ok {
			return r
		}
		<-again.C
	}
}

// named waits until a process has named n jobs on stdout, and returns how many it did.
func (s *station) named(w *worker, n int) int {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := s.within(clitest.Patience); ; {
		got := strings.Count(w.stdout.String(), "job/"+testQueue+"/")
		if got >= n || ctx.Err() != nil {
			return got
		}
		<-again.C
	}
}

// worker is one leasectl process.
type worker struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *clitest.Log
	stdout *clitest.Log
	done   chan struct{}
}

// work starts leasectl work with flags and a shell script as its command, in the station's directory. Its session outlasts
// any time in which a busy machine lets nobody run; a test of what comes when it is over has flags for a short one.
func (s *station) work(script string, flags ...string) *worker {
	s.t.Helper()
	args := append([]string{"work", testQueue, "--ttl", "1m"}, flags...)
	return s.start(exec.Command("leasectl", append(args, "--", "/bin/sh", "-c", script)...))
}

func (s *station) start(cmd *exec.Cmd) *worker {
	s.t.Helper()
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LEASECTL_ENDPOINTS="+s.endpoints, "LEASECTL_ROOT="+s.root, "LEASECTL_DIAL_TIMEOUT=1m")
	w := &worker{t: s.t, cmd: cmd, stderr: clitest.NewLog(), stdout: clitest.NewLog(), done: make(chan struct{})}
	cmd.Stderr, cmd.Stdout = w.stderr, w.stdout
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		_ = cmd.Wait() // its code is looked at by exit
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-w.done
		if s.t.Failed() {
			s.t.Logf("stderr of %v:\n%s", cmd.Args, w.stderr)
		}
	})
	return w
}

func (w *worker) signal(sig syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatal(err)
	}
}

// says waits for a line on stderr that contains text.
func (w *worker) says(text string) {
	w.t.Helper()
	select {
	case <-w.stderr.When(text):
	case <-time.After(clitest.Patience):
		w.t.Fatalf("%q was not said", text)
	}
}

// exit waits for the end and returns the exit code.
func (w *worker) exit() int {
	w.t.Helper()
	select {
	case <-w.done:
		return w.cmd.ProcessState.ExitCode()
	case <-time.After(clitest.Patience):
		w.t.Fatal("the process does not end")
		return -1
	}
}

// heldFIFO returns the name of a pipe, and a channel that is closed when everybody who opened it for writing is gone.
func (s *station) heldFIFO(name string) <-chan struct{} {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		s.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		f, err := os.Open(path) // returns when the first writer is there
		if err == nil {
			_, _ = io.Copy(io.Discard, f)
			f.Close()
		}
	}()
	return gone
}

func wantClosed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(clitest.Patience):
		t.Fatal(what)
	}
}

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

// ask makes the FIFO "go", for a command that waits to be told something.
func (s *station) ask() {
	s.t.Helper()
	if err := syscall.Mkfifo(filepath.Join(s.dir, "go"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// tell writes into it. Where nobody reads, as when the command has ended, it does not block.
func (s *station) tell(text string) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, "go"), os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() }) // what is written stays while it is open
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
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
