package exit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Sig syscall.Signal }

func (e *SignalError) Error() string { return "interrupted by " + signalText(e.Sig) }

// endings are the signals that ask a program to end, with their names.
var endings = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGTERM: "SIGTERM",
}

func signalText(sig syscall.Signal) string { return endings[sig] }

// Signals turns the endings into two events: the first ends the context, the second closes aborted. After that
// the system's own handling is back, so a third ends the process whatever it does. One that is ignored, as nohup does
// with SIGHUP, stays ignored. A SIGTERM soon after the first signal
// is its echo and does not count: timeout(1) signals its child and then the group that the child is in, and supervisors do
// the like. People who are impatient send SIGINT, which always counts.
type Signals struct {
	Aborted chan struct{}
	quit    chan struct{}
	cancel  context.CancelCauseFunc
	wait    sync.WaitGroup
}

// WatchSignals starts to listen. The caller must call stop.
func WatchSignals(parent context.Context) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &Signals{Aborted: make(chan struct{}), quit: make(chan struct{}), cancel: cancel}
	arrived := make(chan os.Signal, 2)
	for sig := range endings {
		if !signal.Ignored(sig) {
			signal.Notify(arrived, sig)
		}
	}
	s.wait.Go(func() {
		defer signal.Stop(arrived)
		var first time.Time
		for n := 1; n <= 2; {
			select {
			case sig := <-arrived:
				if n == 2 && isEcho(sig, time.Since(first)) {
					continue
				}
				first = time.Now()
				s.received(sig, n)
				n++
			case <-s.quit:
				return
			}
		}
	})
	return ctx, s
}

// echoTime is how long after the first signal a SIGTERM is taken for its echo.
const echoTime = 500 * time.Millisecond

func isEcho(sig os.Signal, after time.Duration) bool {
	return sig == syscall.SIGTERM && after < echoTime
}

func (s *Signals) received(sig os.Signal, n int) {
	if n == 2 {
		close(s.Aborted)
		return
	}
	number, ok := sig.(syscall.Signal)
	if !ok {
		number = syscall.SIGINT
	}
	s.cancel(&SignalError{Sig: number})
}

// Stop ends the context and the listening; it returns when the goroutine is gone.
func (s *Signals) Stop() {
	s.cancel(context.Canceled)
	close(s.quit)
	s.wait.Wait()
}

// Signal returns the signal that ended ctx as an error, or nil.
func Signal(ctx context.Context) error {
	var i *SignalError
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}

// SignalCode returns the exit code of a command that failed because a signal ended its context, as a shell would
// report it: 128 and its number. An error that has another reason keeps its own code.
func SignalCode(ctx context.Context, err error) (int, bool) {
	var i *SignalError
	if !errors.As(context.Cause(ctx), &i) {
		return 0, false
	}
	var own *SignalError
	if !errors.As(err, &own) && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		return 0, false
	}
	return 128 + int(i.Sig), true
}
