//go:build unix

package execjob

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch starts what cmd describes under a guard, in the foreground of the terminal on its stdin if it is to be. It
// returns when the command runs; the caller must call kill then. The error is what the kernel said.
func launch(cmd *exec.Cmd, foreground bool) (*process, error) {
	theirs, ours, err := controlPipes()
	if err != nil {
		return nil, err
	}
	g := &guarded{guard: guardCommand(cmd, foreground), orderTo: ours[0]}
	g.guard.ExtraFiles = theirs
	err = g.guard.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	p := &process{exited: make(chan struct{}), gone: make(chan struct{}), orders: g}
	reports := bufio.NewScanner(ours[1])
	if err := g.awaitStart(reports, cmd.Path); err != nil {
		_ = g.guard.Wait()
		closeAll(ours)
		return nil, err
	}
	go func() {
		defer close(p.gone)
		g.follow(p, reports)
		closeAll(ours)
	}()
	return p, nil
}

// controlPipes returns the guard's ends, orders and reports, and ours.
func controlPipes() (theirs, ours []*os.File, err error) {
	orders, orderTo, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	reports, reportTo, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{orders, orderTo})
		return nil, nil, err
	}
	return []*os.File{orders, reportTo}, []*os.File{orderTo, reports}, nil
}

// guarded is a process as leasectl sees it: through its guard.
type guarded struct {
	guard   *exec.Cmd
	orderTo *os.File
	pid     int // the command's, and its group's
}

// awaitStart blocks until the guard has told whether the command runs.
func (g *guarded) awaitStart(reports *bufio.Scanner, path string) error {
	if !reports.Scan() {
		return errors.New("the guard ended before the command began")
	}
	what, number, _ := strings.Cut(reports.Text(), " ")
	n, err := strconv.Atoi(number)
	switch {
	case err == nil && what == reportStarted:
		g.pid = n
		return nil
	case err == nil && what == reportFailed:
		return &os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(n)}
	}
	return fmt.Errorf("the guard said %q", reports.Text())
}

// follow listens to the guard until it ends. A guard that was killed has left the end of the command untold: the kernel
// has killed the command, and its group is killed here.
func (g *guarded) follow(p *process, reports *bufio.Scanner) {
	told, ended := false, false
	for reports.Scan() {
		what, number, _ := strings.Cut(reports.Text(), " ")
		switch what {
		case reportEnded:
			ended = true
			close(p.exited)
		case reportGone:
			n, err := strconv.ParseUint(number, 10, 32)
			told, p.err = true, err
			p.end = endingOf(syscall.WaitStatus(n))
		}
	}
	if !told {
		p.end = ending{code: -1, signal: syscall.SIGKILL}
		_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	}
	if !ended {
		close(p.exited)
	}
	_ = g.guard.Wait() // its own end says nothing
}

// send gives an order. A guard that was stopped is woken for it.
func (g *guarded) send(order string) {
	_ = g.guard.Process.Signal(syscall.SIGCONT)
	_ = g.orderTo.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = g.orderTo.WriteString(order + "\n")
}

func (g *guarded) terminate() { g.send(orderTerminate) }

// kill closes the pipe: the guard takes it for the end of leasectl.
func (g *guarded) kill() { _ = g.orderTo.Close() }

func (g *guarded) relyFor(left, grace time.Duration) {
	g.send(fmt.Sprintf("%s %d %d", orderRely, left, grace))
}

func endingOf(status syscall.WaitStatus) ending {
	if status.Signaled() {
		return ending{code: -1, signal: status.Signal()}
	}
	return ending{code: status.ExitStatus()}
}

// signalName names a signal.
func signalName(sig syscall.Signal) string {
	return cmp.Or(unix.SignalName(sig), "signal "+strconv.Itoa(int(sig)))
}
