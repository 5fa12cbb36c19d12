package execjob

import (
	"syscall"
	"time"
)

// ending is how a process ended.
type ending struct {
	code   int            // exit code; -1 when a signal ended it
	signal syscall.Signal // 0 when it exited by itself
}

// process is a command with all that it started. launch starts it; see guard_unix.go.
type process struct {
	exited chan struct{} // closed when the command has ended; what it started may go on
	gone   chan struct{} // closed when nothing is left of it; then end and err are set
	end    ending
	err    error

	orders
}

// orders is what can be done to a process. None of them fails: a process that is gone needs no order.
type orders interface {
	// terminate asks the command's group to end, once.
	terminate()
	// kill ends all that is left, and then gone is closed.
	kill()
	// relyFor says how long the claim can be relied on from now: when that is over the process is terminated, and
	// killed after the grace, unless it was said anew by then.
	relyFor(left, grace time.Duration)
}

// keepRelied says again and again how long the claim can be relied on, until it cannot be, p is gone, or the
// returned function is called, which joins it. Without a claim, nil, it says nothing.
func (p *process) keepRelied(reliable func() time.Duration, grace time.Duration) (stop func()) {
	if reliable == nil {
		return func() {}
	}
	over, joined := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		for {
			left := reliable()
			p.relyFor(left, grace)
			if left <= 0 {
				return // saying it anew would prolong the grace
			}
			select {
			case <-time.After(min(max(left/16, 20*time.Millisecond), time.Second)):
			case <-p.gone:
				return
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-joined
	}
}
