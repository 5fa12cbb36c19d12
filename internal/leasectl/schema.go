package leasectl

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

func newSchema(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [COMMAND...]",
		Short: "Describe the commands for a program, such as an agent",
		Long: `Describe the commands for a program, such as an agent: each with its arguments,
flags, examples, and its impact, at most: read changes nothing, write changes the
cluster, destroy takes something away for good, local touches only what it starts
itself or files of this machine.
With arguments only the commands below that one.`,
		GroupID: cli.GroupOther,
		Example: `  leasectl schema -o json
  leasectl schema jobs -o json
  leasectl schema -o json | jq -r '.commands[] | select(.impact == "read") | .command'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.Format(output.JSON, output.YAML, output.Table)
			if err != nil {
				return err
			}
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return cli.UnknownVerb(target, args[len(args)-max(1, len(rest))])
			}
			commands := commandsBelow(target)
			if format == output.Table {
				return output.PrintList(output.Printer{W: a.Out, Format: format}, commandView, commands)
			}
			return output.PrintItem(output.Printer{W: a.Out, Format: format}, output.View[schemaItem]{}, schemaItem{
				Program: cmd.Root().Name(), Global: flagItems(cmd.Root().PersistentFlags()), Commands: commands,
				Topics: slices.Sorted(maps.Keys(topics)), ExitCodes: exitCodes,
			})
		},
	}
}

// schemaItem is the whole tree.
type schemaItem struct {
	Program   string            `json:"program"`
	Global    []flagItem        `json:"global_flags"`
	Commands  []commandItem     `json:"commands"`
	Topics    []string          `json:"help_topics"`
	ExitCodes map[string]string `json:"exit_codes"`
}

// commandItem is one command that does something.
type commandItem struct {
	Command string     `json:"command"` // as it is typed
	Usage   string     `json:"usage"`
	Short   string     `json:"short"`
	Long    string     `json:"long,omitempty"`
	Impact  string     `json:"impact"`
	Aliases []string   `json:"aliases,omitempty"`
	Example []string   `json:"examples"`
	Flags   []flagItem `json:"flags"`
}

type flagItem struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`
	Default   string `json:"default,omitempty"`
	Usage     string `json:"usage"`
}

// exitCodes says what help exit-codes does, for programs.
var exitCodes = map[string]string{
	"0": "ok", "1": "failed", "2": "bad usage, or a question that needs --yes", "3": "not found",
	"4": "not logged in or not permitted", "5": "conflict: a revision, a token or a state has moved",
	"6": "etcd is not reachable or gives no answer in time", "7": "a part of a bulk operation failed",
	"8": "doctor: errors remain", "130": "interrupted",
}

var commandView = output.View[commandItem]{
	Name: func(c commandItem) string { return c.Command },
	Columns: []output.Column[commandItem]{
		{Head: "COMMAND", Cell: func(c commandItem) string { return c.Command }},
		{Head: "IMPACT", Cell: func(c commandItem) string { return c.Impact }},
		{Head: "SHORT", Cell: func(c commandItem) string { return c.Short }},
	},
}

// commandsBelow lists the commands that do something, in the order of their names.
func commandsBelow(cmd *cobra.Command) (items []commandItem) {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil
	}
	for _, sub := range cmd.Commands() {
		items = append(items, commandsBelow(sub)...)
	}
	if cmd.Annotations[cli.GroupKey] != "" {
		return items
	}
	item := commandItem{
		Command: cmd.CommandPath(), Usage: cmd.UseLine(), Short: cmd.Short, Long: cmd.Long, Impact: cli.MostOf(cmd),
		Aliases: cmd.Aliases, Example: []string{}, Flags: flagItems(cmd.LocalFlags()),
	}
	for line := range strings.Lines(cmd.Example) {
		item.Example = append(item.Example, strings.TrimSpace(line))
	}
	return append([]commandItem{item}, items...)
}

func flagItems(set *pflag.FlagSet) []flagItem {
	items := []flagItem{}
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		items = append(items, flagItem{f.Name, f.Shorthand, f.Value.Type(), f.DefValue, usage})
	})
	return items
}
