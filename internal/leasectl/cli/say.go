package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// Format returns the output format for a verb that offers these, the default first. A format that the verb does not
// offer is an error on the command line, but not in the environment, which speaks to all verbs.
func (a *App) Format(offered ...string) (string, error) {
	asked := a.Settings.Output
	switch {
	case a.Settings.Shape != nil:
		return a.shapedFormat(offered)
	case asked == "":
		return offered[0], nil
	case slices.Contains(offered, asked):
		return asked, nil
	case slices.Contains(output.ListFormats, asked) && a.Settings.Source("output") != "--output":
		return offered[0], nil
	default:
		return "", exit.Usagef("-o "+offered[0], "%s is %q: this command offers %s",
			a.Settings.Source("output"), asked, strings.Join(offered, ", "))
	}
}

// shapedFormat is the format of what is shaped, JSON of one kind or the other. From then on the verb prints to the shaper.
func (a *App) shapedFormat(offered []string) (string, error) {
	s := a.Settings.Shape
	format := output.JSON
	switch asked := a.Settings.Output; {
	case asked == output.JSONL:
		format = output.JSONL
	case asked != "" && asked != output.JSON && !strings.HasPrefix(asked, output.TemplatePrefix) && a.Settings.Source("output") == "--output":
		return "", exit.Usagef("-o json", "%s shapes JSON: it does not go with --output %s", s.Flag, asked)
	}
	if !slices.Contains(offered, format) {
		if !s.Named() { // what stands in the environment speaks to all verbs
			return offered[0], nil
		}
		return "", exit.Usagef("-o "+offered[0], "%s shapes JSON, and this command offers %s", s.Flag, strings.Join(offered, ", "))
	}
	if a.Shaper != nil {
		a.Out = a.Shaper.In
	}
	return format, nil
}

// Notef writes a line for people to stderr. What the arguments say stays in that line.
func (a *App) Notef(format string, args ...any) {
	fmt.Fprintf(a.Err, format+"\n", inert(args)...)
}

// inert is args with each text in them as a terminal may have it.
func inert(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = escape.Text(arg)
		case error:
			args[i] = exit.Text(arg)
		}
	}
	return args
}

// PasswordPrompt returns how to ask a person for a password, or nil where nobody can be asked.
func (a *App) PasswordPrompt() func(ctx context.Context, user string) (string, error) {
	f, ok := a.In.(*os.File)
	if !ok || !output.IsTerminal(f) || !output.IsTerminal(a.Err) {
		return nil
	}
	return func(ctx context.Context, user string) (string, error) {
		fmt.Fprintf(a.Err, "password of %s: ", escape.Text(user))
		password, err := a.password(ctx, f)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		fmt.Fprintln(a.Err)
		return password, nil
	}
}

// PrintLine writes one line to stdout.
func (a *App) PrintLine(line string) error {
	return output.Write(a.Out, escape.Text(line)+"\n")
}

// PrintDone prints what a verb has done: the item in JSON, the name of what it was done to, or a line.
func (a *App) PrintDone(format string, item any, name, line string) error {
	switch format {
	case output.JSON:
		return output.PrintJSON(a.Out, item)
	case output.Name:
		return a.PrintLine(name)
	}
	return a.PrintLine(line)
}

// Colourful reports whether colours may go to w: as --color says, else only to a terminal, and not against NO_COLOR or a
// dumb one.
func (a *App) Colourful(w io.Writer) bool {
	switch a.Settings.Colour {
	case output.ColourAlways:
		return true
	case output.ColourNever:
		return false
	}
	return a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb" && output.IsTerminal(w)
}

// FinishShaping ends what --jq or a template began, and returns how the verb ended with it.
func (a *App) FinishShaping(err error) error {
	if a.Shaper == nil {
		return err
	}
	serr := a.Shaper.Finish()
	switch {
	case serr != nil && (err == nil || errors.Is(err, serr)):
		return serr // it says what is wrong, and not where it was met
	case err == nil && a.Out != io.Writer(a.Shaper.In) && a.Settings.Shape.Named():
		a.Notef("warning: %s has shaped nothing: this command prints no JSON", a.Settings.Shape.Flag)
	}
	return err
}
