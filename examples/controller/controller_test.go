package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// asController makes the test binary the controller itself.
const asController = "CONTROLLER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const (
	// deployments are as many as a replica scans at a time: all of them are under way when it is stopped.
	deployments = 50
	// aPodsTime is what a pod has to stop, less what its machine may need.
	aPodsTime = 28 * time.Second
)

// stage is one etcd and one API server, and the replicas of a controller on both.
type stage struct {
	t          *testing.T
	etcd       *etcdtest.Cluster
	client     *clientv3.Client
	queue      *workqueue.Queue
	kubeconfig string
}

func newStage(t *testing.T, mode string) *stage {
	t.Helper()
	t.Parallel()
	s := &stage{t: t, etcd: etcdtest.New(t, etcdtest.Config{Proxies: true}), kubeconfig: startAPI(t, deployments)}
	s.client = s.etcd.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	if s.queue, err = workqueue.Open(ctx, s.client, workqueue.Config{Queue: "scans"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.queue.Close() })
	if err := s.queue.SetMode(ctx, mode, workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// replica is one process of the controller.
type replica struct {
	s    *stage
	cmd  *exec.Cmd
	done chan struct{} // it is gone
}

// start starts a replica whose scans take that long.
func (s *stage) start(name string, takes time.Duration, endpoints []string) *replica {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], "-identity", name, "-takes", takes.String(), "-concurrency", strconv.Itoa(deployments),
		"-endpoints", strings.Join(endpoints, ","), "-metrics", "0", "-probes", "0")
	cmd.Env = append(os.Environ(), asController+"=1", "KUBECONFIG="+s.kubeconfig)
	logs, err := os.CreateTemp(s.t.TempDir(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	r := &replica{s: s, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(r.done)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.done
		if text, err := os.ReadFile(logs.Name()); err == nil && s.t.Failed() {
			s.t.Logf("%s said:\n%s", name, text)
		}
	})
	return r
}

func (r *replica) signal(sig os.Signal) {
	r.s.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.s.t.Error(err)
	}
}

// ends waits for the process to be gone, and returns how long that took and its exit code.
func (r *replica) ends(since time.Time) (took time.Duration, code int) {
	r.s.t.Helper()
	select {
	case <-r.done:
		return time.Since(since), r.cmd.ProcessState.ExitCode()
	case <-time.After(2 * time.Minute):
		r.s.t.Fatal("the controller does not end")
		panic("unreachable")
	}
}

// count counts the jobs by state.
func (s *stage) count() map[workqueue.State]int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	states := map[workqueue.State]int{}
	for j, err := range s.queue.List(ctx, workqueue.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		states[j.State]++
	}
	return states
}

// until waits, from one change under Leasekit's root to the next, for so many jobs in a state.
func (s *stage) until(n int, state workqueue.State) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	changes := s.client.Watch(ctx, "/leasekit/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for range changes {
		if s.count()[state] == n {
			return
		}
	}
	s.t.Fatalf("of %d jobs that were to be %s: %v", n, state, s.count())
}

// wantScanned tells that a second replica finds all that the first has left, and that each result was written once,
// beside the end of its job.
func (s *stage) wantScanned(losses int) {
	s.t.Helper()
	second := s.start("second", 0, s.etcd.Endpoints())
	s.until(deployments, workqueue.StateDone)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for j, err := range s.queue.List(ctx, workqueue.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if j.Failures != 0 || j.Losses > losses {
			s.t.Errorf("job %s has %d failures and %d losses", j.ID, j.Failures, j.Losses)
		}
	}
	resp, err := s.client.Get(ctx, scans, clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	if len(resp.Kvs) != deployments {
		s.t.Errorf("%d results, want %d", len(resp.Kvs), deployments)
	}
	for _, kv := range resp.Kvs {
		if !strings.Contains(string(kv.Value), "web:3 by second.") || kv.Version != 1 {
			s.t.Errorf("%s holds %q, version %d", kv.Key, kv.Value, kv.Version)
		}
	}
	stopping := time.Now()
	second.signal(syscall.SIGTERM)
	if took, code := second.ends(stopping); took > aPodsTime || code != 0 {
		s.t.Errorf("idle, it was gone after %v with exit code %d", took, code)
	}
	if left, err := s.client.Get(ctx, "/leasekit/sessions/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || left.Count != 0 {
		s.t.Errorf("%d sessions are left, %v", left.Count, err)
	}
}

// A replica that is stopped with all its scans under way is gone before its pod is killed, and leaves none of them to its
// lease; a second SIGTERM changes nothing.
func TestStoppedWithLongHandlers(t *testing.T) {
	for _, mode := range []string{workqueue.ModeClaim, workqueue.ModeDispatch} {
		t.Run(mode, func(t *testing.T) {
			s := newStage(t, mode)
			first := s.start("first", 90*time.Second, s.etcd.Endpoints())
			s.until(deployments, workqueue.StateClaimed)
			stopping := time.Now()
			first.signal(syscall.SIGTERM)
			first.signal(syscall.SIGTERM)
			took, code := first.ends(stopping)
			t.Logf("gone after %v with exit code %d", took.Round(10*time.Millisecond), code)
			if took > aPodsTime || code != 0 {
				t.Errorf("gone after %v with exit code %d", took, code)
			}
			if states := s.count(); states[workqueue.StateReady] != deployments {
				t.Errorf("the jobs are %v, want all ready", states)
			}
			s.wantScanned(0)
		})
	}
}

// A replica whose etcd goes away before it is stopped cannot give anything back. It is gone in time all the same, and its
// lease hands over.
func TestStoppedWithoutEtcd(t *testing.T) {
	s := newStage(t, workqueue.ModeClaim)
	first := s.start("first", 90*time.Second, []string{s.etcd.Proxy(0).Endpoint()})
	s.until(deployments, workqueue.StateClaimed)
	s.etcd.Proxy(0).Pause()
	stopping := time.Now()
	first.signal(syscall.SIGTERM)
	took, code := first.ends(stopping)
	t.Logf("gone after %v with exit code %d", took.Round(10*time.Millisecond), code)
	if took > aPodsTime || code != 0 {
		t.Errorf("gone after %v with exit code %d", took, code)
	}
	s.wantScanned(1)
}

// A replica that is killed while it stops leaves its jobs to its lease.
func TestKilledWhileItStops(t *testing.T) {
	s := newStage(t, workqueue.ModeDispatch)
	first := s.start("first", 90*time.Second, s.etcd.Endpoints())
	s.until(deployments, workqueue.StateClaimed)
	first.signal(syscall.SIGTERM)
	first.signal(syscall.SIGKILL)
	if _, code := first.ends(time.Now()); code == 0 {
		t.Error("killed, it says that all is well")
	}
	s.wantScanned(1)
}
