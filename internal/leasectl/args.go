package leasectl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takes returns a check of the positional arguments: names in order, optional ones in square brackets, such as
// takes("QUEUE", "[PAYLOAD]"). Where the usage has "-- CMD", arguments after -- belong to that command and are not
// counted; elsewhere -- only ends the flags.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 && strings.Contains(cmd.Use, "-- CMD") {
			args = args[:dash]
		}
		if len(args) > len(names) {
			return usagef(helpOf(cmd), "%sunexpected argument %q", verbPrefix(cmd), args[len(names)])
		}
		for _, name := range names[len(args):] {
			if !strings.HasPrefix(name, "[") {
				return usagef(helpOf(cmd), "%s%s is missing", verbPrefix(cmd), name)
			}
		}
		return nil
	}
}

// group makes cmd a group of verbs: without a verb, or with an unknown one, it is a usage error that says which exist.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd = withAnnotation(cmd, groupKey, "true")
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
			return usagef(helpOf(cmd), "%sa verb is missing, one of %s", verbPrefix(cmd), strings.Join(names, ", "))
		}
		return unknownVerb(cmd, args[0])
	}
	return cmd
}

func unknownVerb(cmd *cobra.Command, name string) error {
	try := helpOf(cmd)
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		nearest := slices.MinFunc(near, func(a, b string) int { return cmp.Compare(edits(name, a), edits(name, b)) })
		try = cmd.CommandPath() + " " + nearest
	}
	return usagef(try, "unknown command %q for %s", name, cmd.CommandPath())
}

// flagError turns the flag parser's errors into usage errors that suggest what may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	_, name, unknown := strings.Cut(text, "unknown flag: --")
	try := helpOf(cmd)
	if near := nearestFlag(cmd, name); unknown && near != "" {
		try = "--" + near
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		err = fmt.Errorf("invalid argument %q for %q flag: want %s", value.GetValue(), flagName(f), wantedBy(f))
	}
	return &failure{code: exitUsage, err: fmt.Errorf("%s%w", verbPrefix(cmd), err), try: try}
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// verbPrefix names the verb at the head of a message, without the program, which every message begins with.
func verbPrefix(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

func helpOf(cmd *cobra.Command) string { return cmd.CommandPath() + " --help" }

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

// firstPlaceholder returns the first argument of a usage line, without its brackets.
func firstPlaceholder(use string) string {
	words := strings.Fields(use)
	if len(words) < 2 {
		return ""
	}
	return strings.TrimSuffix(strings.Trim(words[1], "[]"), "...")
}

// The groups in which help lists the verbs.
const (
	groupWork  = "work"
	groupLook  = "look"
	groupLocal = "local"
	groupOther = "other"
)

var groups = []*cobra.Group{
	{ID: groupWork, Title: "Work:"},
	{ID: groupLook, Title: "Inspect and repair:"},
	{ID: groupLocal, Title: "Try and measure:"},
	{ID: groupOther, Title: "Other:"},
}

// addCredentialsFlag declares the flag of verbs that run commands.
func addCredentialsFlag(f *pflag.FlagSet, given *bool) {
	f.BoolVar(given, "pass-credentials", false, "let the command inherit LEASECTL_PASSWORD and the like, which it does not else")
}

// checkTTL refuses a TTL that no session can have.
func checkTTL(ttl time.Duration) error {
	if ttl < time.Second || ttl > 24*time.Hour {
		return usagef("--ttl 10s", "--ttl is %v: it must be between 1s and 24h", ttl)
	}
	return nil
}
