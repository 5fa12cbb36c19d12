//go:build unix

package execjob_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// runCommand runs a shell script with the options that change makes.
func runCommand(ctx context.Context, t *testing.T, script string, change func(*execjob.Command)) (code int, out string) {
	t.Helper()
	argv, err := execjob.Look([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	c := execjob.Command{Argv: argv, Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: &stdout, Grace: time.Hour}
	if change != nil {
		change(&c)
	}
	code, err = c.Run(ctx)
	if err != nil {
		t.Errorf("run %q: %v", script, err)
	}
	return code, stdout.String()
}

func TestCommandHasOurStreamsAndItsOwnCode(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		if got, _ := runCommand(t.Context(), t, script, nil); got != want {
			t.Errorf("%s: got code %d, want %d", script, got, want)
		}
	}
	_, out := runCommand(t.Context(), t, `cat; echo " $X" >&2`, func(c *execjob.Command) { c.Env = []string{"X=y"} })
	if out != "in y\n" {
		t.Errorf("got %q", out)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := (&execjob.Command{Argv: []string{plain}}).Run(t.Context())
	var look *execjob.LookError
	if !errors.As(err, &look) || look.Code != 126 {
		t.Errorf("start what is no program: got %v, want a LookError with 126", err)
	}
}

// A command that ignores SIGTERM is killed when its right to run is over, when
// leasectl is told to abort, or after the grace.
func TestStubbornCommandIsKilled(t *testing.T) {
	for name, change := range map[string]func(*execjob.Command, chan struct{}){
		"lost":    func(c *execjob.Command, over chan struct{}) { c.Lost, c.LostGrace = over, time.Millisecond },
		"aborted": func(c *execjob.Command, over chan struct{}) { c.Abort = over },
		"grace":   func(c *execjob.Command, _ chan struct{}) { c.Grace = time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			path, allGone := fifo(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan struct{})
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			go func() {
				_, _ = r.Read(make([]byte, 1)) // it ignores signals from here on
				cancel()
				close(over)
			}()
			code, _ := runCommand(ctx, t, `exec 9>`+path+`; trap "" TERM; echo x; sleep 1000 & wait; while :; do wait; sleep 1000; done`, func(c *execjob.Command) {
				c.Stdout, c.Stderr = w, w
				change(c, over)
			})
			_ = w.Close()
			if code != 137 {
				t.Errorf("got code %d, want 137", code)
			}
			allGone()
		})
	}
}
