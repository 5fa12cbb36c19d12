package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

const echoEnv = "LEASEKIT_TEST_ECHO"

// TestMain runs the tests, or, in a process that a test has started from this
// binary, gives back what it reads.
func TestMain(m *testing.M) {
	if os.Getenv(echoEnv) != "" {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return
	}
	etcdtest.Main(m, etcdtest.Config{})
}

// patience bounds what a test waits for; nothing is expected to take that long.
const patience = 60 * time.Second

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// briefly is for calls that are expected not to be answered.
func briefly(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// stage is an Env with a client behind a network of its own.
type stage struct {
	*faults.Env
	client *clientv3.Client
}

func newStage(t testing.TB, c *etcdtest.Cluster) *stage {
	t.Helper()
	s := &stage{Env: &faults.Env{Cluster: c, Client: c.Client(t), Root: etcdtest.Root(t), Rand: rand.New(rand.NewPCG(1, 2))}}
	network := c.NewProxies(t)
	var endpoints []string
	for _, p := range network {
		endpoints = append(endpoints, p.Endpoint())
	}
	s.Networks = append(s.Networks, network)
	s.client = etcdtest.NewClient(t, endpoints)
	s.serves(t)
	return s
}

func (s *stage) key() string { return s.Root + "k" }

// serves checks that the client reaches etcd.
func (s *stage) serves(t testing.TB) {
	t.Helper()
	ctx := bounded(t)
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := s.client.Get(attempt, s.key())
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the client does not reach etcd: %v", err)
		}
	}
}

// silent checks that the client gets no answer.
func (s *stage) silent(t testing.TB) {
	t.Helper()
	if _, err := s.client.Get(briefly(t), s.key()); err == nil {
		t.Error("the client reached etcd all the same")
	}
}

func inject(t testing.TB, f faults.Fault, env *faults.Env) faults.Heal {
	t.Helper()
	heal, err := f.Inject(bounded(t), env)
	if err != nil {
		t.Fatalf("inject %s: %v", f.Name(), err)
	}
	t.Cleanup(func() { _ = heal(context.Background()) })
	return heal
}

// mend heals, twice: the second time must be fine and do nothing.
func mend(t testing.TB, heal faults.Heal) {
	t.Helper()
	for range 2 {
		if err := heal(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func wantNotHere(t testing.TB, f faults.Fault, env *faults.Env) {
	t.Helper()
	if heal, err := f.Inject(bounded(t), env); heal != nil || !errors.Is(err, faults.ErrNotHere) {
		t.Errorf("inject %s: got %v, want %v", f.Name(), err, faults.ErrNotHere)
	}
}

// echo is a process that gives back what it is sent.
type echo struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newEcho(t testing.TB) *echo {
	t.Helper()
	e := &echo{t: t}
	e.start()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
	})
	return e
}

func (e *echo) start() {
	e.t.Helper()
	e.cmd = exec.Command(os.Args[0])
	e.cmd.Env = append(os.Environ(), echoEnv+"=1")
	in, err := e.cmd.StdinPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.in, e.out = in, bufio.NewReader(out)
}

func (e *echo) Signal(sig syscall.Signal) error { return e.cmd.Process.Signal(sig) }

func (e *echo) Restart(context.Context) error {
	_ = e.cmd.Wait() // whose error is the signal
	e.start()
	return nil
}

func (e *echo) send(t testing.TB, word string) {
	t.Helper()
	if _, err := fmt.Fprintln(e.in, word); err != nil {
		t.Fatal(err)
	}
}

func (e *echo) expect(t testing.TB, word string) {
	t.Helper()
	got, err := e.out.ReadString('\n')
	if err != nil || got != word+"\n" {
		t.Fatalf("got %q, %v, want %q", got, err, word)
	}
}
