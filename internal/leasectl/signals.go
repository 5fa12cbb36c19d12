package leasectl

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

// interruptError is the cause of a context that a signal ended.
type interruptError struct{ sig syscall.Signal }

func (e *interruptError) Error() string { return "interrupted by " + signalText(e.sig) }

// endings are the signals that ask a program to end, with their names.
var endings = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGTERM: "SIGTERM",
}

func signalText(sig syscall.Signal) string { return endings[sig] }

// signals turns the endings into two events: the first ends the context, the second closes aborted. After that
// the system's own handling is back, so a third ends the process whatever it does. One that is ignored, as nohup does
// with SIGHUP, stays ignored. A SIGTERM soon after the first signal
// is its echo and does not count: timeout(1) signals its child and then the group that the child is in, and supervisors do
// the like. People who are impatient send SIGINT, which always counts.
type signals struct {
	aborted chan struct{}
	quit    chan struct{}
	cancel  context.CancelCauseFunc
	wait    sync.WaitGroup
}

// watchSignals starts to listen. The caller must call stop.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{aborted: make(chan struct{}), quit: make(chan struct{}), cancel: cancel}
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

func (s *signals) received(sig os.Signal, n int) {
	if n == 2 {
		close(s.aborted)
		return
	}
	number, ok := sig.(syscall.Signal)
	if !ok {
		number = syscall.SIGINT
	}
	s.cancel(&interruptError{sig: number})
}

// stop ends the context and the listening; it returns when the goroutine is gone.
func (s *signals) stop() {
	s.cancel(context.Canceled)
	close(s.quit)
	s.wait.Wait()
}

// interrupted returns the signal that ended ctx as an error, or nil.
func interrupted(ctx context.Context) error {
	var i *interruptError
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}

// interruptCode returns the exit code of a command that failed because a signal ended its context, as a shell would
// report it: 128 and its number. An error that has another reason keeps its own code.
func interruptCode(ctx context.Context, err error) (int, bool) {
	var i *interruptError
	if !errors.As(context.Cause(ctx), &i) {
		return 0, false
	}
	var own *interruptError
	if !errors.As(err, &own) && !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		return 0, false
	}
	return 128 + int(i.sig), true
}
