//go:build unix

package execjob

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// guardName is what a guard is called, which is also how it knows that it is one.
const guardName = "leasectl-guard"

// What a guard is told, and tells.
const (
	orderTerminate = "terminate"
	orderRely      = "rely" // two durations in ns

	reportStarted = "started" // pid
	reportFailed  = "failed"  // errno
	reportEnded   = "ended"
	reportGone    = "gone" // wait status
)

// Its descriptors beside the command's own.
const (
	ordersFD  = 3
	reportsFD = 4
)

// guardCommand is this program as the guard of a command, in a process group of its own: what a terminal or a person
// sends to leasectl's group does not reach it.
func guardCommand(cmd *exec.Cmd, foreground bool) *exec.Cmd {
	where := "background"
	if foreground {
		where = "foreground"
	}
	return &exec.Cmd{
		Path: self(), Args: append([]string{guardName, where, cmd.Path}, cmd.Args...), Env: cmd.Env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
}

// IsGuard tells whether this process was started to be a guard.
func IsGuard() bool { return os.Args[0] == guardName && len(os.Args) > 3 }

// Guard is the life of a guard: it starts the command and blocks until nothing is left of it. The program must do
// nothing else, and exit with the code returned.
func Guard() (code int) {
	runtime.LockOSThread() // the kernel kills the command when the thread that started it ends
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
	g := &guard{reports: os.NewFile(reportsFD, "reports"), over: make(chan struct{}), empty: make(chan struct{}), grim: timer(), last: timer()}
	outlive()
	adoptOrphans()
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGCHLD)
	pid, err := syscall.ForkExec(os.Args[2], os.Args[3:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: procAttr(os.Args[1] == "foreground"),
	})
	if err != nil {
		errno, _ := err.(syscall.Errno)
		g.report(reportFailed, int(errno))
		return 1
	}
	g.pid = pid
	letGo()
	g.report(reportStarted, pid)
	go g.reap(ends)
	g.watch(os.NewFile(ordersFD, "orders"))
	return 0
}

// outlive keeps the guard from being ended by what ends leasectl or its terminal. What leasectl ignores the command
// ignores too; everything else is as usual for it.
func outlive() {
	heard := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGALRM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(heard, sig)
		}
	}
}

// letGo closes the command's streams here: whoever reads or writes them shall meet the command only.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		closeAll([]*os.File{os.Stdin, os.Stdout, os.Stderr})
		return
	}
	defer null.Close()
	for fd := range 3 {
		_ = dup2(int(null.Fd()), fd)
	}
}

// guard is the parent of one command.
type guard struct {
	pid     int
	reports *os.File

	reaping sync.Mutex // held where children are reaped, and where they are killed: their numbers are their own
	status  syscall.WaitStatus
	over    chan struct{} // closed when the command is reaped; then status is set
	empty   chan struct{} // closed when no child is left

	asked bool        // the command was asked to end
	grim  *time.Timer // when the claim can be relied on no more
	last  *time.Timer // when the grace after it is over
}

// timer is one that does not run yet.
func timer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// report tells leasectl, if it is still there.
func (g *guard) report(what string, n int) { _, _ = fmt.Fprintf(g.reports, "%s %d\n", what, n) }

// watch follows the orders, and ends the command when they end or are overdue.
func (g *guard) watch(from *os.File) {
	orders := make(chan string)
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			orders <- lines.Text()
		}
	}()
	over := g.over
	for {
		select {
		case order, ok := <-orders:
			if !ok {
				g.finish(over)
				return
			}
			g.follow(order)
		case <-over:
			g.report(reportEnded, 0)
			over = nil
		case <-g.grim.C:
			g.terminate()
		case <-g.last.C:
			g.finish(over)
			return
		}
	}
}

func (g *guard) follow(order string) {
	what, rest, _ := strings.Cut(order, " ")
	switch what {
	case orderTerminate:
		g.terminate()
	case orderRely:
		var left, grace time.Duration
		if _, err := fmt.Sscan(rest, (*int64)(&left), (*int64)(&grace)); err == nil {
			g.grim.Reset(max(left, 0))
			g.last.Reset(max(left, 0) + max(grace, 0))
		}
	}
}

// terminate asks the command's group to end; who was stopped has to run for that.
func (g *guard) terminate() {
	if g.asked {
		return
	}
	g.asked = true
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
}

// signal sends to the command's group. Once the command is reaped its number may be another's: then what is left is
// known as children, where it can be.
func (g *guard) signal(sig syscall.Signal) {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	if !isClosed(g.over) || !seesOrphans {
		_ = syscall.Kill(-g.pid, sig)
	}
}

// finish kills what is left, and reports the end.
func (g *guard) finish(over <-chan struct{}) {
	g.sweep()
	if over != nil {
		g.report(reportEnded, 0)
	}
	g.report(reportGone, int(g.status))
}

// deniedRounds is how often in a row nothing could be killed before what is left is taken for out of reach.
const deniedRounds = 5

// sweep returns when nothing is left but what may not be killed. The command itself is waited for in any case. Children
// alone are killed; their own children come to this guard then, for the next round.
func (g *guard) sweep() {
	g.signal(syscall.SIGKILL)
	denied := 0
	for pause := time.Millisecond; denied < deniedRounds; pause = min(2*pause, time.Second) {
		select {
		case <-g.empty:
			return
		case <-time.After(pause):
		}
		g.signal(syscall.SIGKILL)
		if g.killChildren() || !isClosed(g.over) {
			denied = 0
		} else {
			denied++
		}
	}
}

// killChildren tells whether it could kill any.
func (g *guard) killChildren() (any bool) {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	for _, pid := range children() {
		any = syscall.Kill(pid, syscall.SIGKILL) == nil || any
	}
	return any
}

// reap takes every child's end, also of those that came to this guard as orphans. heard gets SIGCHLD.
func (g *guard) reap(heard <-chan os.Signal) {
	defer close(g.empty)
	for g.reapEnded() {
		<-heard
	}
}

// reapEnded is false when no child is left.
func (g *guard) reapEnded() bool {
	g.reaping.Lock()
	defer g.reaping.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == g.pid:
			g.status = status
			close(g.over)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
