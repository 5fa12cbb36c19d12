//go:build unix

package cli

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// WhileRead is ctx until whoever reads stdout is gone, which shows where that is a pipe: a command that waits for what it
// prints next would otherwise stay until there is something. Its cause ends the command as SIGPIPE would. stop must be
// called; it blocks until the watching has ended, which is at once.
func (a *App) WhileRead(ctx context.Context) (reading context.Context, stop func()) {
	out, ok := a.Out.(*os.File)
	if !ok {
		return ctx, func() {}
	}
	if info, err := out.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return ctx, func() {}
	}
	woken, wake, err := os.Pipe()
	if err != nil { // without it the command only stays longer
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fds := []unix.PollFd{{Fd: int32(out.Fd())}, {Fd: int32(woken.Fd()), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, -1)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil || n == 0 || fds[1].Revents != 0:
				return
			}
			cancel(&exit.Ended{Code: exit.NoReader})
			return
		}
	}()
	return ctx, func() {
		_ = wake.Close()
		<-ended
		_ = woken.Close()
		cancel(nil)
	}
}
