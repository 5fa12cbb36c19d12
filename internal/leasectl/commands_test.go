package leasectl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command shows how it is used, says in one line what it does, and stands in a group of the help.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, getenv: func(string) string { return "" }}
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
	a := &app{in: strings.NewReader(""), out: &out, err: &out, getenv: func(string) string { return "" }}
	jobs := group(&cobra.Command{Use: "jobs"}, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}},
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
		if got := out.String(); code != exitUsage || got != tt.want {
			t.Errorf("%v: exit code %d, %q; want %d, %q", tt.args, code, got, exitUsage, tt.want)
		}
	}
}

// The impact in the schema is the most that a command can do, while a context still permits it to look.
func TestSchemaSaysTheMostThatACommandCanDo(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }}
	root := newRoot(a, verbs(a))
	for path, want := range map[string][2]string{ // in the schema, and for a context
		"doctor":             {impactDestroy, impactRead},
		"doctor checks":      {impactRead, impactRead},
		"top":                {impactWrite, impactRead},
		"config set":         {impactLocal, impactLocal},
		"config use":         {impactLocal, impactLocal},
		"config rename":      {impactLocal, impactLocal},
		"config delete":      {impactLocal, impactLocal},
		"config view":        {impactRead, impactRead},
		"jobs ls":            {impactRead, impactRead},
		"jobs retry":         {impactWrite, impactWrite},
		"queues purge":       {impactDestroy, impactDestroy},
		"work":               {impactWrite, impactWrite},
		"elections campaign": {impactWrite, impactWrite},
	} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v", path, err)
		}
		items := commandsBelow(cmd)
		if got := [2]string{items[0].Impact, impactOf(cmd)}; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
