// Package child runs this program again as child processes that work for their
// parent: they report in lines on stdout and end when their stdin does, which also
// covers a parent that was killed.
package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a running child. Safe for concurrent use.
type Process struct {
	// Lines are the lines of the child's stdout; closed at its end.
	Lines <-chan string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	err   error
	once  sync.Once
}

// Start runs this program with args, and env added to its environment. What the
// child writes to stderr goes to errOut. The caller must read Lines to their end,
// or call Stop.
func Start(errOut io.Writer, env []string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "leasectl"
	cmd.Stderr = errOut
	cmd.Env = append(os.Environ(), env...)
	setGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args, err)
	}
	lines := make(chan string, 64)
	p := &Process{Lines: lines, cmd: cmd, stdin: stdin, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer close(lines)
		scan := bufio.NewScanner(stdout)
		scan.Buffer(nil, 64<<20)
		for scan.Scan() {
			lines <- scan.Text()
		}
		_, _ = io.Copy(io.Discard, stdout)
		p.err = errors.Join(scan.Err(), cmd.Wait())
	}()
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the child.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Quit closes the child's stdin, which asks it to end. It does not wait.
func (p *Process) Quit() { p.once.Do(func() { _ = p.stdin.Close() }) }

// KillAfter kills the child unless it is gone after grace. It blocks until the
// child is gone; somebody else must be reading Lines.
func (p *Process) KillAfter(grace time.Duration) {
	kill := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.done
}

// Stop asks the child to end, kills it when it has not after grace, and drains
// Lines, which nobody else may read any more. The error is how the child ended.
// Stopping twice is fine.
func (p *Process) Stop(grace time.Duration) error {
	p.Quit()
	kill := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for range p.Lines {
	}
	<-p.done
	return p.err
}

// UntilEOF returns a context that ends with parent, or when in does: the child's
// side of Stop.
func UntilEOF(parent context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
