package cli

import (
	"context"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Nor does an interrupted question for a password leave a terminal that shows nothing.
func TestInterruptedPasswordRestoresTheTerminal(t *testing.T) {
	keyboard, screen := clitest.Terminal(t)
	fd := int(screen.Fd())
	lflag := func() uint32 {
		m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return m.Lflag
	}
	before := lflag()
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &App{In: screen, Err: clitest.NewLog()}
	asked := make(chan error, 1)
	go func() {
		_, err := a.password(ctx, screen)
		asked <- err
	}()
	hidden := time.NewTicker(time.Millisecond)
	defer hidden.Stop()
	for end := time.Now().Add(clitest.Patience); lflag()&unix.ECHO != 0; <-hidden.C {
		if time.Now().After(end) {
			t.Fatal("what is typed is shown")
		}
	}
	cancel(&exit.SignalError{Sig: syscall.SIGINT})
	err := <-asked
	if code, ok := exit.SignalCode(ctx, err); !ok || code != exit.Interrupted {
		t.Errorf("%v: exit code %d, want %d", err, code, exit.Interrupted)
	}
	if after := lflag(); after != before {
		t.Errorf("the terminal was left in mode %x, want %x", after, before)
	}
	if _, err := keyboard.WriteString("\n"); err != nil { // ends the read
		t.Fatal(err)
	}
}
