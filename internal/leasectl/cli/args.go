package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Takes returns a check of the positional arguments: names in order, optional ones in square brackets, such as
// takes("QUEUE", "[PAYLOAD]"). Where the usage has "-- CMD", arguments after -- belong to that command and are not
// counted; elsewhere -- only ends the flags.
func Takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 && strings.Contains(cmd.Use, "-- CMD") {
			args = args[:dash]
		}
		if len(args) > len(names) {
			return exit.Usagef(HelpOf(cmd), "%sunexpected argument %q", VerbPrefix(cmd), args[len(names)])
		}
		for _, name := range names[len(args):] {
			if !strings.HasPrefix(name, "[") {
				return exit.Usagef(HelpOf(cmd), "%s%s is missing", VerbPrefix(cmd), name)
			}
		}
		return nil
	}
}

// Group makes cmd a group of verbs: without a verb, or with an unknown one, it is a usage error that says which exist.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd = withAnnotation(cmd, GroupKey, "true")
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			var names []string
			for _, verb := range cmd.Commands() {
				if verb.IsAvailableCommand() {
					names = append(names, verb.Name())
				}
			}
			return exit.Usagef(HelpOf(cmd), "%sa verb is missing, one of %s", VerbPrefix(cmd), strings.Join(names, ", "))
		}
		return UnknownVerb(cmd, args[0])
	}
	return cmd
}

// UnknownVerb is the error of a name that is none of the group's verbs; it suggests the nearest.
func UnknownVerb(cmd *cobra.Command, name string) error {
	try := HelpOf(cmd)
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		nearest := slices.MinFunc(near, func(a, b string) int { return cmp.Compare(edits(name, a), edits(name, b)) })
		try = cmd.CommandPath() + " " + nearest
	}
	return exit.Usagef(try, "unknown command %q for %s", name, cmd.CommandPath())
}

// FlagError turns the flag parser's errors into usage errors that suggest what may have been meant.
func FlagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	_, name, unknown := strings.Cut(text, "unknown flag: --")
	try := HelpOf(cmd)
	if near := nearestFlag(cmd, name); unknown && near != "" {
		try = "--" + near
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		err = fmt.Errorf("invalid argument %q for %q flag: want %s", value.GetValue(), flagName(f), connect.WantedBy(f))
	}
	return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%s%w", VerbPrefix(cmd), err), Try: try}
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// VerbPrefix names the verb at the head of a message, without the program, which every message begins with.
func VerbPrefix(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

// HelpOf is the command line that shows the help of a command.
func HelpOf(cmd *cobra.Command) string { return cmd.CommandPath() + " --help" }

// nearestFlag returns the flag whose name is at most two edits away, or nothing.
func nearestFlag(cmd *cobra.Command, name string) string {
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	return nearest(name, flags)
}

// nearest returns the first of the names that are the fewest edits away, two at most, or nothing.
func nearest(name string, names []string) string {
	best, distance := "", min(3, len(name)) // else a short name would be like any other
	for _, n := range names {
		if d := edits(name, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// edits counts the insertions, deletions and replacements of bytes that make b out of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// FirstPlaceholder returns the first argument of a usage line, without its brackets.
func FirstPlaceholder(use string) string {
	words := strings.Fields(use)
	if len(words) < 2 {
		return ""
	}
	return strings.TrimSuffix(strings.Trim(words[1], "[]"), "...")
}

// The groups in which help lists the verbs.
const (
	GroupWork  = "work"
	GroupLook  = "look"
	GroupLocal = "local"
	GroupOther = "other"
)

// Groups are all of them, in the order of the help.
var Groups = []*cobra.Group{
	{ID: GroupWork, Title: "Work:"},
	{ID: GroupLook, Title: "Inspect and repair:"},
	{ID: GroupLocal, Title: "Try and measure:"},
	{ID: GroupOther, Title: "Other:"},
}

// AddCredentialsFlag declares the flag of verbs that run commands.
func AddCredentialsFlag(f *pflag.FlagSet, given *bool) {
	f.BoolVar(given, "pass-credentials", false, "let the command inherit LEASECTL_PASSWORD and the like, which it does not else")
}

// CheckTTL refuses a TTL that no session can have.
func CheckTTL(ttl time.Duration) error {
	if ttl < time.Second || ttl > 24*time.Hour {
		return exit.Usagef("--ttl 10s", "--ttl is %v: it must be between 1s and 24h", ttl)
	}
	return nil
}
