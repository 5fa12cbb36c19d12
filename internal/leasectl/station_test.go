package leasectl

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

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
