package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"golang.org/x/term"
)

// answer reads the line that a person types. It ends with ctx, which Ctrl-C ends, and then returns the cause, whatever was
// typed: who interrupts has not agreed. Nothing can take the read itself out of its wait, so it ends with the process.
func (a *App) answer(ctx context.Context) (string, error) {
	return a.typed(ctx, func() (string, error) { return bufio.NewReader(a.In).ReadString('\n') })
}

// password reads what a person types without showing it, as answer does.
func (a *App) password(ctx context.Context, terminal *os.File) (string, error) {
	fd := int(terminal.Fd())
	shown, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	text, err := a.typed(ctx, func() (string, error) {
		b, err := term.ReadPassword(fd)
		return string(b), err
	})
	if ctx.Err() != nil {
		_ = term.Restore(fd, shown) // the read goes on, and with it what it did to the terminal
	}
	return text, err
}

func (a *App) typed(ctx context.Context, read func() (string, error)) (string, error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := read()
		lines <- line{text, err}
	}()
	var l line
	select {
	case l = <-lines:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		fmt.Fprintln(a.Err, "\nnothing changed")
		return "", context.Cause(ctx)
	}
	return l.text, l.err
}
