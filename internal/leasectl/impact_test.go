package leasectl

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestImpact(t *testing.T) {
	changing := func() *cobra.Command {
		cmd := &cobra.Command{Use: "x"}
		(&mutation{}).addFlags(cmd.Flags())
		return cmd
	}
	for _, tt := range []struct {
		cmd  *cobra.Command
		want string
	}{
		{&cobra.Command{Use: "x"}, impactRead},
		{changing(), impactWrite},
		{writes(&cobra.Command{Use: "x"}), impactWrite},
		{destroys(changing()), impactDestroy},
		{staysHome(&cobra.Command{Use: "x"}), impactLocal},
	} {
		if got := impactOf(tt.cmd); got != tt.want {
			t.Errorf("impact %q, want %q", got, tt.want)
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
