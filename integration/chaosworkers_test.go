package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/faults"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// chaosEnv tells this binary to be a worker of the chaos test: JSON of serving.
const chaosEnv = "LEASEKIT_TEST_CHAOS"

// serving is what a worker needs to know, in whichever process it runs.
type serving struct {
	Proc      string
	Log       string // a file; empty keeps the record in memory
	Endpoints []string
	Stand     bool // for dispatcher too
	Stints    bool // one worker after the other on a session that goes on
	Login     login

	rec   *history.Recorder
	clock func() (time.Duration, time.Time)
	dial  []grpc.DialOption
}

// serve works the queue until ctx ends, whatever trouble it begins in.
func (s serving) serve(ctx context.Context) (err error) {
	log := zap.New(s.rec.Reached().Core())
	cl, err := insist(ctx, func(context.Context) (*clientv3.Client, error) { return newClient(s.Login, s.Endpoints, s.dial...) })
	if err != nil {
		return nil // it was to end before it began
	}
	defer func() {
		if !closeClient(cl) {
			err = errors.Join(err, errors.New("the client of etcd does not close"))
		}
	}()
	q, err := insist(ctx, func(ctx context.Context) (*workqueue.Queue, error) {
		cfg := queueConfig(log)
		cfg.Identity = s.Proc
		return workqueue.Open(ctx, cl, cfg)
	})
	if err != nil {
		return nil
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	member := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: chaosRoot, TTL: theSize().ttl, Identity: s.Proc, Logger: log, Clock: s.clock})
	life, end := context.WithCancel(context.Background())
	var memberErr error
	var wg sync.WaitGroup
	wg.Go(func() { memberErr = member.Run(life) })
	defer func() {
		end()
		wg.Wait()
		err = errors.Join(err, memberErr)
	}()
	for ctx.Err() == nil && err == nil {
		err = s.work(ctx, q, member)
	}
	return err
}

// work runs a worker until ctx ends, or its stint is over. That a first session was
// denied is tried again.
func (s serving) work(ctx context.Context, q *workqueue.Queue, member *coord.SessionKeeper) error {
	if s.Stints {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond+rand.N(3*time.Second))
		defer cancel()
	}
	w, err := workqueue.NewWorker(q, s.rec.Handler(chaosHandler{s.rec, q}), workqueue.WorkerConfig{
		Concurrency: theSize().concurrency, SessionKeeper: member, SessionTTL: theSize().ttl, Timeout: 10 * time.Second, Grace: time.Second,
		DrainTimeout: 5 * time.Second, StandForDispatcher: s.Stand, Hooks: s.rec.Hooks(workqueue.Hooks{}),
	})
	if err != nil {
		return err
	}
	err = w.Run(ctx)
	if s.Stints && err != nil && strings.Contains(err.Error(), "handlers that ignore") {
		return nil // a deaf one outlives its worker, as it would outlive its claim
	}
	return err
}

// insist tries until it works or ctx ends.
func insist[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 3*time.Second)
		v, err := f(attempt)
		cancel()
		if err == nil || !wait(ctx, 50*time.Millisecond) {
			return v, err
		}
	}
}

// chaosChild is a worker process. It ends cleanly on SIGTERM, and at once when the
// process that started it is gone.
func chaosChild(conf string) int {
	var s serving
	if err := json.Unmarshal([]byte(conf), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var rpcs history.RPCs
	var err error
	if s.rec, err = history.OpenRecorder(s.Log, s.Proc); err == nil {
		s.dial = rpcs.DialOptions()
		err = errors.Join(s.serve(ctx), rpcs.Err(), s.rec.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// chaosProc is the place of a worker process: when one is killed, another follows.
type chaosProc struct {
	c         *chaos
	t         *testing.T
	slot      int
	endpoints []string

	mu       sync.Mutex
	n        int // incarnations
	cmd      *exec.Cmd
	stdin    io.Closer
	expected bool // its end
	done     chan struct{}
	logs     []string
}

func (p *chaosProc) name() string { return fmt.Sprintf("proc%d-%d", p.slot, p.n) }

// living is the name of the process that runs.
func (p *chaosProc) living() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name()
}

func (p *chaosProc) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	log := filepath.Join(p.c.dir, p.name()+".jsonl")
	conf, err := json.Marshal(serving{Proc: p.name(), Log: log, Endpoints: p.endpoints, Stand: true, Stints: p.slot == 1, Login: p.c.worker})
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), chaosEnv+"="+string(conf))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.expected, p.done = cmd, false, make(chan struct{})
	p.logs = append(p.logs, log)
	name, done := p.name(), p.done
	go func() {
		defer close(done)
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if (err != nil || !p.expected) && !p.killed(err) {
			p.t.Errorf("%s ended: %v\n%s", name, err, stderr.Bytes())
		}
	}()
	return nil
}

// killed tells that err is how a process ends that was to be killed. Called with mu
// held.
func (p *chaosProc) killed(err error) bool {
	exit := &exec.ExitError{}
	if !p.expected || !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Signal sends a signal, and marks what it does to the process.
func (p *chaosProc) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch sig {
	case syscall.SIGKILL:
		p.c.rec.Mark(history.Killed, p.name())
		p.expected = true
	case syscall.SIGSTOP:
		p.c.rec.Mark(history.Paused, p.name())
	case syscall.SIGCONT:
		defer p.c.rec.Mark(history.Resumed, p.name())
	case syscall.SIGTERM:
		p.expected = true
	}
	return p.cmd.Process.Signal(sig)
}

// Restart starts the next incarnation behind the end of this one.
func (p *chaosProc) Restart(ctx context.Context) error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
		return p.start()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end stops the process cleanly, or kills it when that takes too long.
func (p *chaosProc) end() {
	_ = p.Signal(syscall.SIGCONT)
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s does not stop", p.name())
		_ = p.Signal(syscall.SIGKILL)
		<-p.done
	}
	_ = p.stdin.Close()
}

// chaosClient is a worker in this process.
type chaosClient struct {
	serving
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// startWorkers starts all workers, each behind a network of its own.
func (c *chaos) startWorkers(t *testing.T) {
	t.Helper()
	for i := range theSize().processes {
		p := &chaosProc{c: c, t: t, slot: i, endpoints: c.network(t)}
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		c.procs = append(c.procs, p)
		c.env.Processes = append(c.env.Processes, p)
		t.Cleanup(func() {
			_ = p.Signal(syscall.SIGKILL) // which fails when it has ended
			<-p.done
		})
	}
	for i := range theSize().inside {
		clock := faults.NewClock()
		c.env.Clocks = append(c.env.Clocks, clock)
		proc := fmt.Sprintf("inside%d", i)
		w := &chaosClient{done: make(chan struct{}), serving: serving{
			Proc: proc, Endpoints: c.network(t), Login: c.worker, Stints: i%2 == 1, rec: history.NewRecorder(proc), clock: clock.Read, dial: c.watched(),
		}}
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		go func() {
			defer close(w.done)
			w.err = w.serve(ctx)
		}()
		c.clients = append(c.clients, w)
		t.Cleanup(func() {
			w.stop()
			<-w.done
		})
	}
}

// stopWorkers stops all workers cleanly, at the same time.
func (c *chaos) stopWorkers(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range c.procs {
		wg.Go(p.end)
	}
	for _, w := range c.clients {
		wg.Go(func() {
			w.stop()
			<-w.done
			if w.err != nil {
				t.Errorf("%s: %v", w.Proc, w.err)
			}
		})
	}
	wg.Wait()
}
