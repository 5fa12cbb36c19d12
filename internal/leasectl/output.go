package leasectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// format returns the output format for a verb that offers these, the default first. A format that the verb does not
// offer is an error on the command line, but not in the environment, which speaks to all verbs.
func (a *app) format(offered ...string) (string, error) {
	asked := a.settings.output
	switch {
	case a.settings.shape != nil:
		return a.shapedFormat(offered)
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

// shapedFormat is the format of what is shaped, JSON of one kind or the other. From then on the verb prints to the shaper.
func (a *app) shapedFormat(offered []string) (string, error) {
	s := a.settings.shape
	format := formatJSON
	switch asked := a.settings.output; {
	case asked == formatJSONL:
		format = formatJSONL
	case asked != "" && asked != formatJSON && !strings.HasPrefix(asked, templatePrefix) && a.settings.source("output") == "--output":
		return "", usagef("-o json", "%s shapes JSON: it does not go with --output %s", s.flag, asked)
	}
	if !slices.Contains(offered, format) {
		if !s.named() { // what stands in the environment speaks to all verbs
			return offered[0], nil
		}
		return "", usagef("-o "+offered[0], "%s shapes JSON, and this command offers %s", s.flag, strings.Join(offered, ", "))
	}
	if a.shaper != nil {
		a.out = a.shaper.in
	}
	return format, nil
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

// printLine writes one line to stdout.
func (a *app) printLine(line string) error {
	if _, err := fmt.Fprintln(a.out, escape.Text(line)); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// colourful reports whether colours may go to w: as --color says, else only to a terminal, and not against NO_COLOR or a
// dumb one.
func (a *app) colourful(w io.Writer) bool {
	switch a.settings.colour {
	case colourAlways:
		return true
	case colourNever:
		return false
	}
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(w)
}

// finishShaping ends what --jq or a template began, and returns how the verb ended with it.
func (a *app) finishShaping(err error) error {
	if a.shaper == nil {
		return err
	}
	serr := a.shaper.finish()
	switch {
	case serr != nil && (err == nil || errors.Is(err, serr)):
		return serr // it says what is wrong, and not where it was met
	case err == nil && a.out != io.Writer(a.shaper.in) && a.settings.shape.named():
		a.notef("warning: %s has shaped nothing: this command prints no JSON", a.settings.shape.flag)
	}
	return err
}
