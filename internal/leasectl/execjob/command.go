package execjob

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Command is a command that runs with leasectl's own streams, in a process group of its own, for as long as leasectl
// may let it. Its fields are not changed once Run was called.
type Command struct {
	// Argv is the command, its program resolved by Look.
	Argv []string
	// Env is added to leasectl's own environment, of which Credentials lets the command inherit the passwords too.
	Env         []string
	Credentials bool

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Grace is the time between SIGTERM and SIGKILL when ctx ends; negative: SIGKILL at once.
	Grace time.Duration
	// Lost, once closed, leaves the command LostGrace in place of Grace: it has no right to run any more. Nil: never.
	Lost      <-chan struct{}
	LostGrace time.Duration
	// Reliable is how long that right can be relied on from now, for the case that leasectl is stopped; nil: for ever.
	Reliable func() time.Duration
	// Abort, once closed, kills the command at once; nil: never.
	Abort <-chan struct{}
}

// Run starts the command and blocks until all that it started has ended: by itself, or because ctx did. It returns its
// exit code, 128 plus the signal's number for one that a signal ended; the error is a *LookError when it could not be
// started. The program must call Guard where IsGuard says so.
func (c *Command) Run(ctx context.Context) (code int, err error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env = append(inherited(c.Credentials), c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	foreground, restore := shareTerminal(c.Stdin)
	defer restore()
	p, err := launch(cmd, foreground)
	if err != nil {
		return 0, &LookError{Name: c.Argv[0], Code: 126, Err: err}
	}
	kill, stop := c.killSwitch()
	unrelied := p.keepRelied(c.Reliable, c.LostGrace)
	(&child{process: p}).supervise(ctx, kill, c.Grace)
	unrelied()
	stop()
	switch {
	case p.err != nil:
		return 0, fmt.Errorf("wait for %s: %w", c.Argv[0], p.err)
	case p.end.signal != 0:
		return 128 + int(p.end.signal), nil
	}
	return p.end.code, nil
}

// killSwitch returns a channel that is closed when the command must be killed at once, and a function that joins what
// closes it.
func (c *Command) killSwitch() (kill chan struct{}, stop func()) {
	kill = make(chan struct{})
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		lost := c.Lost
		var due <-chan time.Time
		for {
			select {
			case <-lost:
				lost = nil
				t := time.NewTimer(c.LostGrace)
				defer t.Stop()
				due = t.C
				continue
			case <-due:
			case <-c.Abort:
			case <-over:
				return
			}
			close(kill)
			return
		}
	}()
	return kill, func() {
		close(over)
		<-gone
	}
}
