//go:build unix

package exit

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// timeout(1) signals its child twice at once. That is one wish to stop, and the running jobs are not killed for it; who
// goes on to send SIGTERM means it.
func TestSIGTERMSoonAfterTheFirstIsItsEcho(t *testing.T) {
	kept := make(chan os.Signal, 1) // what comes when the watch is over already must not end the tests
	signal.Notify(kept, syscall.SIGTERM)
	defer signal.Stop(kept)
	ctx, s := WatchSignals(t.Context())
	defer s.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	begun := time.Now()
	for sent := 0; ; sent++ {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Aborted:
			if took := time.Since(begun); took < echoTime || ctx.Err() == nil || sent < 2 {
				t.Errorf("aborted after %v by %d signals, want none that counts before %v", took, sent, echoTime)
			}
			return
		case <-again.C:
		}
		if time.Since(begun) > clitest.Patience {
			t.Fatal("who insists is not heard")
		}
	}
}
