package leasectl

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"golang.org/x/term"
)

// The output formats. A verb names those that it offers, its default first.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatName  = "name"
	formatCSV   = "csv"
)

var (
	// listFormats are what every verb offers that shows items.
	listFormats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatName, formatCSV}
	// resultFormats are what a verb offers that says what it did.
	resultFormats = []string{formatTable, formatJSON, formatName}
)

// format returns the output format for a verb that offers these, the default first. A format that the verb does not
// offer is an error on the command line, but not in the environment, which speaks to all verbs.
func (a *app) format(offered ...string) (string, error) {
	asked := a.settings.output
	switch {
	case asked == "":
		return offered[0], nil
	case slices.Contains(offered, asked):
		return asked, nil
	case slices.Contains(listFormats, asked) && a.settings.source("output") != "--output":
		return offered[0], nil
	default:
		return "", usagef("-o "+offered[0], "%s is %q: this command offers %s",
			a.settings.source("output"), asked, strings.Join(offered, ", "))
	}
}

// notef writes a line for people to stderr. What the arguments say stays in that line.
func (a *app) notef(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", inert(args)...)
}

// inert is args with each text in them as a terminal may have it.
func inert(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = escape.Text(arg)
		case error:
			args[i] = errorText(arg)
		}
	}
	return args
}

// colourful reports whether colours may go to w: only to a terminal, and not against NO_COLOR or a dumb one.
func colourful(w io.Writer, getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isTerminal(w)
}

// passwordPrompt returns how to ask a person for a password, or nil where nobody can be asked.
func (a *app) passwordPrompt() func(ctx context.Context, user string) (string, error) {
	f, ok := a.in.(*os.File)
	if !ok || !isTerminal(f) || !isTerminal(a.err) {
		return nil
	}
	return func(ctx context.Context, user string) (string, error) {
		fmt.Fprintf(a.err, "password of %s: ", escape.Text(user))
		password, err := a.password(ctx, f)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		fmt.Fprintln(a.err)
		return password, nil
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// count is a number of things in words: 1 job, 2 jobs.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// told is the error of telling what has been done: whoever reads it must not take it for undone.
func told(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s, but not told: %w", what, err)
	}
	return nil
}

// printLine writes one line to stdout.
func (a *app) printLine(line string) error {
	if _, err := fmt.Fprintln(a.out, escape.Text(line)); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
