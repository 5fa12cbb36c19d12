package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// childEnv tells this binary to be a worker: "<endpoint> <root> <ttl> <handler>". The
// handler "dispatch" makes it a dispatcher.
const childEnv = "LEASEKIT_TEST_CHILD"

// child works the queue "q" until it gets SIGTERM, and says on stdout what happens.
func child() int {
	var endpoint, root, ttl, handler string
	if _, err := fmt.Sscan(os.Getenv(childEnv), &endpoint, &root, &ttl, &handler); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run := func() error { return work(ctx, endpoint, root, ttl, handlers[handler]) }
	if handler == "dispatch" {
		run = func() error { return handOut(ctx, endpoint, root, ttl) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, endpoint, root, ttl string, h workqueue.HandlerFunc) error {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := workqueue.Open(ctx, cl, workqueue.Config{Queue: "q", Root: root, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	if err != nil {
		return err
	}
	defer q.Close()
	w, err := workqueue.NewWorker(q, h, workqueue.WorkerConfig{
		Concurrency: 1, SessionTTL: d, DrainTimeout: -1, Grace: time.Second,
		Hooks: workqueue.Hooks{Settled: func(j *workqueue.Job, s workqueue.Settlement) {
			say("settled", j.ID, s.Outcome, fmt.Sprintf("refused=%t", s.Refused), fmt.Sprintf("%T", rootOf(s.Err)))
		}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// rootOf is the innermost error, as errors.As hands it to users.
func rootOf(err error) error {
	if fenced := (*coord.FencedError)(nil); errors.As(err, &fenced) {
		return fenced
	}
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

var sayMu sync.Mutex

func say(words ...string) {
	sayMu.Lock()
	defer sayMu.Unlock()
	fmt.Println(strings.Join(words, " "))
}

// handlers are what a child can do with its jobs.
var handlers = map[string]workqueue.HandlerFunc{
	// block runs until its context ends, and returns a result all the same.
	// Jobs of the kind "ping" it completes at once.
	"block": func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Kind == "ping" {
			return nil, nil
		}
		say("started", c.Job().ID)
		<-ctx.Done()
		say("ended", c.Job().ID, context.Cause(ctx).Error())
		return []byte("late"), nil
	},
	// yield is block that hands in no result, so that somebody runs the job again
	// whatever ends its context.
	"yield": func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Kind == "ping" {
			return nil, nil
		}
		say("started", c.Job().ID)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	},
	// pill ends the process for jobs of the kind "pill", and completes others.
	"pill": func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Kind == "pill" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil, nil
	},
}

// process is a child under way.
type process struct {
	cmd   *exec.Cmd
	lines chan string
	done  chan struct{}
}

func start(t testing.TB, endpoint, root, ttl, handler string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %s", childEnv, endpoint, root, ttl, handler))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) read(out io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.lines <- lines.Text()
	}
	_ = p.cmd.Wait()
	close(p.lines)
}

// expect returns the next line that begins with the words of prefix.
func (p *process) expect(t testing.TB, prefix string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the process ended before it said %q", prefix)
			}
			if strings.HasPrefix(line+" ", prefix+" ") {
				return line
			}
		case <-deadline:
			t.Fatalf("the process never said %q", prefix)
		}
	}
}

func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
