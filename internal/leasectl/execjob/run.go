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
	"runtime"
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

// Runner runs jobs with one command. Its fields are not changed once Run was called; Run is safe for concurrent use.
type Runner struct {
	// Argv is the command, its program resolved by Look.
	Argv []string

	// Grace is the time between SIGTERM and SIGKILL. Default 10 s; negative: SIGKILL at once.
	Grace time.Duration

	// Abort, once closed, kills every running group at once, grace or not, and starts no more; nil: never.
	Abort <-chan struct{}

	// Endpoints and Root are those in use by leasectl; the child sees them.
	Endpoints []string
	// Context is the one in use, "" without one: it says how to log in.
	Context string
	Root    string

	// Stderr also receives what the children write to stderr, as it comes; nil: nobody does. A Writer that blocks
	// stalls the child, as a terminal would. Concurrent runs write to it concurrently.
	Stderr io.Writer

	// TempDir holds result and checkpoint files; empty means os.TempDir.
	TempDir string
}

// Run starts the command for job and blocks until its process group has ended and its output is read. When ctx ends it
// stops the group: SIGTERM, and SIGKILL after the grace, so Run returns at most about Grace + 1 s later. Nothing of Run is left
// behind: no goroutine, no descriptor, no file.
func (r *Runner) Run(ctx context.Context, job Job) Outcome {
	if cause := r.stopped(ctx); cause != nil {
		return Outcome{Verdict: Retry, Err: fmt.Errorf("start %s: %w", r.Argv[0], cause), Cause: cause}
	}
	f, err := newFiles(r.TempDir, job)
	if err != nil {
		return Outcome{Verdict: Retry, Err: err}
	}
	defer f.remove()

	stdout := &tail{max: stdoutBytes}
	stderr := &tail{max: stdoutBytes, tee: r.Stderr}
	c, err := r.start(job, f, stdout, stderr)
	if err != nil {
		return Outcome{Verdict: Retry, Err: err}
	}
	cause := c.supervise(ctx, r.Abort, cmp.Or(r.Grace, 10*time.Second))
	if c.waitErr != nil {
		return Outcome{Verdict: Retry, Err: fmt.Errorf("wait for %s: %w", r.Argv[0], c.waitErr), Cause: cause}
	}
	out := judge(c.cmd.ProcessState, lastLines(stderr.bytes()))
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

// stopped returns why nothing may be started any more, or nil.
func (r *Runner) stopped(ctx context.Context) error {
	select {
	case <-r.Abort:
		return ErrAborted
	default:
		return context.Cause(ctx)
	}
}

// child is one running process group.
type child struct {
	cmd   *exec.Cmd
	pipes []*os.File // our ends; closing them ends the pumps
	pumps sync.WaitGroup

	exited  chan struct{} // closed when the leader has ended; it may still wait to be reaped
	reap    chan struct{} // closed when no signal will be sent any more
	reaped  chan struct{} // closed when waitErr and cmd.ProcessState are set
	waitErr error
}

// start starts the command. The caller must call supervise when it returns no error.
func (r *Runner) start(job Job, f *files, stdout, stderr io.Writer) (*child, error) {
	c := &child{
		cmd:    exec.Command(r.Argv[0], r.Argv[1:]...),
		exited: make(chan struct{}),
		reap:   make(chan struct{}),
		reaped: make(chan struct{}),
	}
	c.cmd.Env = r.environ(os.Environ(), job, f.result, f.checkpoint)
	c.cmd.SysProcAttr = procAttr()

	// The pipes and their pumps are ours, not exec's: Cmd.Wait would reap the leader before it waits for the output,
	// and from then on the number of its process group may be somebody else's.
	theirs, ours, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	c.pipes = ours
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs[0], theirs[1], theirs[2]

	started := make(chan error)
	go c.run(started)
	err = <-started
	closeAll(theirs)
	if err != nil {
		<-c.reaped
		closeAll(ours)
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	c.pumps.Go(func() {
		_, _ = io.Copy(ours[0], bytes.NewReader(job.Payload)) // a child need not read its payload
		_ = ours[0].Close()
	})
	c.pumps.Go(func() { _, _ = io.Copy(stdout, ours[1]) })
	c.pumps.Go(func() { _, _ = io.Copy(stderr, ours[2]) })
	return c, nil
}

// run starts the process, waits for its end and reaps it when supervise lets it. It keeps one thread to itself from
// start to end: the kernel sends the parent-death signal when the *thread* that forked ends, and Go ends a thread when
// a goroutine locked to it returns without unlocking, which any code could do on a thread that it shares with us.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.reaped)
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	if awaitExit(c.cmd.Process.Pid) {
		close(c.exited)
		<-c.reap
		c.wait()
		return
	}
	c.wait()
	close(c.exited)
}

// wait reaps the leader. A bad exit status is no error here: judge reads it.
func (c *child) wait() {
	err := c.cmd.Wait()
	if c.cmd.ProcessState == nil {
		c.waitErr = err
	}
}

// supervise waits for the end of the group, stops it when ctx ends or abort is closed, and joins everything that start
// started. It returns why the group was stopped, nil when it ended by itself.
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
		signalGroup(c.cmd.Process, false)
		if !c.awaitGroup(drained, abort, grace) {
			cause = ErrAborted
		}
	}
	if cause != nil {
		signalGroup(c.cmd.Process, true)
	}
	<-c.exited
	within(drained, drainDelay)
	// The leader has ended; what is left of its group holds no claim. The leader is not reaped yet, so the group's
	// number is still ours.
	signalGroup(c.cmd.Process, true)
	closeAll(c.pipes) // somebody outside the group may still hold the other ends
	<-drained
	close(c.reap)
	<-c.reaped
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
