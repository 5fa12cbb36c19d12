package top_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasekit/leasekit/internal/leasectl/top"
)

// pty is a terminal, and what was drawn on it.
type pty struct {
	t        *testing.T
	keyboard *os.File
	screen   *os.File
	mu       sync.Mutex
	drawn    bytes.Buffer
	reading  sync.WaitGroup
}

func newPty(t *testing.T) *pty {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	p := &pty{t: t, keyboard: open("/dev/ptmx")}
	raw, err := p.keyboard.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.screen = open(fmt.Sprintf("/dev/pts/%d", n))
	p.reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := p.keyboard.Read(b)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.drawn.Write(b[:n])
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = p.screen.Close()
		_ = p.keyboard.Close()
		p.reading.Wait()
	})
	return p
}

func (p *pty) mode() unix.Termios {
	p.t.Helper()
	m, err := unix.IoctlGetTermios(int(p.screen.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *m
}

// shows waits until the text was drawn.
func (p *pty) shows(text string) {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		p.mu.Lock()
		found := strings.Contains(p.drawn.String(), text)
		p.mu.Unlock()
		if found {
			return
		}
	}
	p.t.Fatalf("%q is not drawn: %q", text, p.drawn.String())
}

// However it ends, the terminal is as it was before, and everybody has gone.
func TestTerminalIsGivenBack(t *testing.T) {
	stop := errors.New("stop")
	idle := func(ctx context.Context, _ *top.Recorder) { <-ctx.Done() }
	crashed := func(err error) bool {
		var c *top.Crash
		return errors.As(err, &c) && c.Value == "bug" && strings.Contains(c.Stack, "panic(")
	}
	for name, test := range map[string]struct {
		feed    func(context.Context, *top.Recorder)
		end     func(*pty, context.CancelCauseFunc)
		outcome func(error) bool
	}{
		"q":                  {idle, func(p *pty, _ context.CancelCauseFunc) { _, _ = p.keyboard.WriteString("q") }, func(err error) bool { return err == nil }},
		"ctrl+c":             {idle, func(p *pty, _ context.CancelCauseFunc) { _, _ = p.keyboard.WriteString("\x03") }, func(err error) bool { return errors.Is(err, top.ErrInterrupted) }},
		"context":            {idle, func(_ *pty, cancel context.CancelCauseFunc) { cancel(stop) }, func(err error) bool { return err == nil }},
		"panic":              {func(context.Context, *top.Recorder) { panic("bug") }, func(*pty, context.CancelCauseFunc) {}, crashed},
		"panic of an action": {idle, func(p *pty, _ context.CancelCauseFunc) { _, _ = p.keyboard.WriteString("py") }, crashed},
		"panic of a look":    {func(_ context.Context, r *top.Recorder) { r.Looked(top.Look{Notes: []string{"crash"}}) }, func(*pty, context.CancelCauseFunc) {}, crashed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPty(t)
			before := p.mode()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			age := func(d time.Duration) string {
				if d > time.Hour*24*365*100 && name == "panic of a look" { // of a look that was never
					panic("bug")
				}
				return spell(d)
			}
			m := top.New(ctx, top.Config{Title: "prod", Age: age}, &fake{panics: true}, someLook())
			ended := make(chan error, 1)
			go func() {
				_, err := top.Run(ctx, m, p.screen, p.screen, test.feed)
				ended <- err
			}()
			if !strings.HasPrefix(name, "panic") || name == "panic of an action" { // it may be over before anything is drawn
				p.shows("mail")
			}
			test.end(p, cancel)
			select {
			case err := <-ended:
				if !test.outcome(err) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
			if after := p.mode(); after != before {
				t.Errorf("the terminal was in mode %+v, and is in %+v", before, after)
			}
			_, _ = p.screen.WriteString("that was all")
			p.shows("that was all")
			p.mu.Lock()
			defer p.mu.Unlock()
			if drawn := p.drawn.String(); strings.Count(drawn, "\x1b[?1049h") != strings.Count(drawn, "\x1b[?1049l") || strings.LastIndex(drawn, "\x1b[?25l") > strings.LastIndex(drawn, "\x1b[?25h") {
				t.Errorf("the other screen or the cursor is not back: %q", drawn)
			}
		})
	}
}

// What was begun before somebody left is carried to its end, and told.
func TestAnActionOutlivesTheScreen(t *testing.T) {
	p := newPty(t)
	f := &fake{}
	began := make(chan struct{})
	f.found = top.Found{Count: 1, About: "mail/a", Retry: func(ctx context.Context) (string, error) {
		close(began)
		<-ctx.Done()
		return "0 of 1 retried, 1 not begun", nil
	}}
	m := top.New(t.Context(), top.Config{Title: "prod", Age: spell}, f, someLook())
	type end struct {
		outcome string
		err     error
	}
	ended := make(chan end, 1)
	go func() {
		outcome, err := top.Run(t.Context(), m, p.screen, p.screen)
		ended <- end{outcome, err}
	}()
	p.shows("mail")
	_, _ = p.keyboard.WriteString("r")
	p.shows("Retry")
	_, _ = p.keyboard.WriteString("y")
	<-began
	_, _ = p.keyboard.WriteString("qq")
	if e := <-ended; e.err != nil || e.outcome != "0 of 1 retried, 1 not begun" {
		t.Errorf("%+v", e)
	}
}
