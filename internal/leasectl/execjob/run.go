package execjob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	stdoutBytes = 64 << 10

	// drainDelay is how long output may still arrive after the child has ended: long enough for a filter that the
	// child's shell did not wait for, short enough that a forgotten background process holds up nothing.
	drainDelay = time.Second
)

// ErrAborted is the cause of an outcome that Runner.Abort brought about.
var ErrAborted = errors.New("aborted")

// ErrIdle is the cause of an outcome that Runner.IdleTimeout brought about.
var ErrIdle = errors.New("no output")

// Runner runs jobs with one command. Its fields are not changed once Run was called; Run is safe for concurrent use.
type Runner struct {
	// Argv is the command, its program resolved by Look.
	Argv []string

	// Grace is the time between SIGTERM and SIGKILL. Default 10 s; negative: SIGKILL at once.
	Grace time.Duration

	// Abort, once closed, kills everything that runs at once, grace or not, and starts no more; nil: never.
	Abort <-chan struct{}

	// IdleTimeout stops a child that has written nothing to stdout or stderr for so long; 0: never.
	IdleTimeout time.Duration

	// Endpoints and Root are those in use by leasectl; the child sees them.
	Endpoints []string
	// Context is the one in use, "" without one: it says how to log in.
	Context string
	Root    string
	// Credentials lets the children inherit leasectl's passwords.
	Credentials bool

	// Stderr also receives what the children write to stderr, as it comes; nil: nobody does. A Writer that blocks
	// stalls the child, as a terminal would. Concurrent runs write to it concurrently.
	Stderr io.Writer

	// TempDir holds result and checkpoint files; empty means os.TempDir.
	TempDir string
}

// Run starts the command for job and blocks until all that it started has ended and its output is read. When ctx ends it
// stops it: SIGTERM to the group, and SIGKILL to the rest after the grace, so Run returns at most about Grace + 1 s later.
// Nothing of Run is left behind: no goroutine, no descriptor, no file. The program must call Guard where IsGuard says so.
func (r *Runner) Run(ctx context.Context, job Job) Outcome {
	if cause := r.stopped(ctx); cause != nil {
		return Outcome{Verdict: Retry, Err: fmt.Errorf("start %s: %w", r.Argv[0], cause), Cause: cause}
	}
	if err := job.startable(); err != nil {
		return Outcome{Verdict: Dead, Err: fmt.Errorf("start %s: %w", r.Argv[0], err)} // no repeat can help
	}
	f, err := newFiles(r.TempDir, job)
	if err != nil {
		return Outcome{Verdict: Retry, Err: err}
	}
	defer f.remove()

	ctx, heard, rest := r.untilIdle(ctx)
	defer rest()
	stdout := &tail{max: stdoutBytes, heard: heard}
	stderr := &tail{max: stdoutBytes, tee: r.Stderr, heard: heard}
	c, err := r.start(job, f, stdout, stderr)
	if err != nil {
		return Outcome{Verdict: Retry, Err: err}
	}
	grace := cmp.Or(r.Grace, 10*time.Second)
	stop := c.keepRelied(job.Reliable, grace)
	cause := c.supervise(ctx, r.Abort, grace)
	stop()
	if c.err != nil {
		return Outcome{Verdict: Retry, Err: fmt.Errorf("wait for %s: %w", r.Argv[0], c.err), Cause: cause}
	}
	out := judge(c.end, lastLines(stderr.bytes()))
	out.Cause = cause
	if out.Verdict != Complete {
		return out
	}
	result, written, err := f.readResult()
	switch {
	case err != nil:
		return Outcome{Verdict: Dead, Err: err, Cause: cause}
	case !written:
		result = stdout.bytes()
	}
	out.Result = append([]byte{}, result...)
	return out
}

// untilIdle returns a context that ends when heard was not called for the idle timeout. The caller must call rest.
func (r *Runner) untilIdle(parent context.Context) (ctx context.Context, heard, rest func()) {
	if r.IdleTimeout <= 0 {
		return parent, func() {}, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	idle := time.AfterFunc(r.IdleTimeout, func() { cancel(fmt.Errorf("%w for %v", ErrIdle, r.IdleTimeout)) })
	return ctx, func() { idle.Reset(r.IdleTimeout) }, func() {
		idle.Stop()
		cancel(context.Canceled)
	}
}

// stopped returns why nothing may be started any more, or nil.
func (r *Runner) stopped(ctx context.Context) error {
	select {
	case <-r.Abort:
		return ErrAborted
	default:
		return context.Cause(ctx)
	}
}

// child is one running job.
type child struct {
	*process
	pipes []*os.File // our ends; closing them ends the pumps
	pumps sync.WaitGroup
}

// start starts the command. The caller must call supervise when it returns no error.
func (r *Runner) start(job Job, f *files, stdout, stderr io.Writer) (*child, error) {
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Env = r.environ(inherited(r.Credentials), job, f.result, f.checkpoint)
	theirs, ours, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p, err := launch(cmd, false)
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	c := &child{process: p, pipes: ours}
	c.pumps.Go(func() {
		_, _ = io.Copy(ours[0], bytes.NewReader(job.Payload)) // a child need not read its payload
		_ = ours[0].Close()
	})
	c.pumps.Go(func() { _, _ = io.Copy(stdout, ours[1]) })
	c.pumps.Go(func() { _, _ = io.Copy(stderr, ours[2]) })
	return c, nil
}

// supervise waits for the end of the child, stops it when ctx ends or abort is closed, and joins everything that start
// started. It returns why the child was stopped, nil when it ended by itself.
func (c *child) supervise(ctx context.Context, abort <-chan struct{}, grace time.Duration) (cause error) {
	drained := make(chan struct{})
	go func() {
		c.pumps.Wait()
		close(drained)
	}()
	select {
	case <-c.exited:
	case <-abort:
		cause = ErrAborted
	case <-ctx.Done():
		cause = context.Cause(ctx)
		c.terminate()
		if !c.awaitGroup(drained, abort, grace) {
			cause = ErrAborted
		}
	}
	if cause != nil {
		c.kill()
	}
	<-c.exited
	within(drained, drainDelay)
	c.kill() // what is left holds no claim
	<-c.gone
	closeAll(c.pipes) // something out of reach may still hold the other ends
	<-drained
	return cause
}

// awaitGroup waits until the leader has ended and nobody holds its output any more, at most d. The leader alone is not
// enough: a shell dies of SIGTERM at once while the program that it ran is still putting its things in order. False
// means that abort cut it short.
func (c *child) awaitGroup(drained, abort <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, done := range []<-chan struct{}{c.exited, drained} {
		select {
		case <-done:
		case <-abort:
			return false
		case <-timer.C:
			return true
		}
	}
	return true
}

// within waits for done, at most d.
func within(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// openPipes returns the child's stdin, stdout and stderr and our ends of them.
func openPipes() (theirs, ours []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			closeAll(ours)
			return nil, nil, err
		}
		if i == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	return theirs, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closing one twice is harmless here
	}
}
