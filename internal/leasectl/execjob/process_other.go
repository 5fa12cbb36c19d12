//go:build !unix

package execjob

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// IsGuard is false: there are no guards here.
func IsGuard() bool { return false }

// Guard is not called.
func Guard() (code int) { return 1 }

// launch starts what cmd describes. There is no guard and no group, and no gentler way than to kill.
func launch(cmd *exec.Cmd, _ bool) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{exited: make(chan struct{}), gone: make(chan struct{}), orders: alone{cmd.Process}}
	go func() {
		defer close(p.gone)
		defer close(p.exited)
		err := cmd.Wait()
		if cmd.ProcessState == nil {
			p.err = err
			return
		}
		p.end = ending{code: cmd.ProcessState.ExitCode()}
	}()
	return p, nil
}

// alone is a process without a guard.
type alone struct{ process *os.Process }

func (a alone) terminate()                           { _ = a.process.Kill() }
func (a alone) kill()                                { _ = a.process.Kill() }
func (a alone) relyFor(time.Duration, time.Duration) {}

// signalName is not called: nothing ends by a signal here.
func signalName(syscall.Signal) string { return "" }
