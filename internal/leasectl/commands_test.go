package leasectl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Every command shows how it is used, says in one line what it does, and stands in a group of the help.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Getenv: func(string) string { return "" }}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden { // a part of another command, in a process of its own
			return
		}
		if cmd.Short == "" || cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s: Short or Example is missing", cmd.CommandPath())
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && cmd.GroupID == "" {
			t.Errorf("%s: GroupID is missing", cmd.CommandPath())
		}
		if cmd.RunE == nil || cmd.Run != nil {
			t.Errorf("%s: want RunE", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(a, verbs(a)))
}

func TestGroupNeedsAVerb(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	jobs := cli.Group(&cobra.Command{Use: "jobs"}, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "get", Run: func(*cobra.Command, []string) {}})
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"jobs"}, "leasectl: jobs: a verb is missing, one of get, list; try: leasectl jobs --help\n"},
		{[]string{"jobs", "lst"}, "leasectl: unknown command \"lst\" for leasectl jobs; try: leasectl jobs list\n"},
	} {
		out.Reset()
		code := run(t.Context(), a, newRoot(a, []*cobra.Command{jobs}), tt.args)
		if got := out.String(); code != exit.Usage || got != tt.want {
			t.Errorf("%v: exit code %d, %q; want %d, %q", tt.args, code, got, exit.Usage, tt.want)
		}
	}
}

// The impact in the schema is the most that a command can do, while a context still permits it to look.
func TestSchemaSaysTheMostThatACommandCanDo(t *testing.T) {
	a := &cli.App{Getenv: func(string) string { return "" }}
	root := newRoot(a, verbs(a))
	for path, want := range map[string][2]string{ // in the schema, and for a context
		"doctor":             {cli.ImpactDestroy, cli.ImpactRead},
		"doctor checks":      {cli.ImpactRead, cli.ImpactRead},
		"top":                {cli.ImpactWrite, cli.ImpactRead},
		"config set":         {cli.ImpactLocal, cli.ImpactLocal},
		"config use":         {cli.ImpactLocal, cli.ImpactLocal},
		"config rename":      {cli.ImpactLocal, cli.ImpactLocal},
		"config delete":      {cli.ImpactLocal, cli.ImpactLocal},
		"config view":        {cli.ImpactRead, cli.ImpactRead},
		"jobs ls":            {cli.ImpactRead, cli.ImpactRead},
		"jobs retry":         {cli.ImpactWrite, cli.ImpactWrite},
		"queues purge":       {cli.ImpactDestroy, cli.ImpactDestroy},
		"work":               {cli.ImpactWrite, cli.ImpactWrite},
		"elections campaign": {cli.ImpactWrite, cli.ImpactWrite},
	} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v", path, err)
		}
		items := commandsBelow(cmd)
		if got := [2]string{items[0].Impact, cli.ImpactOf(cmd)}; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
