package leasectl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// What a verb does to the cluster. It stands in the help, in the schema, and decides whether a context permits it.
const (
	impactRead    = "read"
	impactWrite   = "write"
	impactLocal   = "local"   // only what it starts itself, or the endpoints that are named for it, or files of this machine
	impactDestroy = "destroy" // what it takes away cannot be brought back
)

const impactKey = "impact"

// writes marks a verb that changes something in the cluster, destroys one that deletes, staysHome one that has an etcd of
// its own. A verb with --dry-run is taken
// for one that writes, every other for one that reads.
func writes(cmd *cobra.Command) *cobra.Command    { return withImpact(cmd, impactWrite) }
func destroys(cmd *cobra.Command) *cobra.Command  { return withImpact(cmd, impactDestroy) }
func staysHome(cmd *cobra.Command) *cobra.Command { return withImpact(cmd, impactLocal) }

func withImpact(cmd *cobra.Command, impact string) *cobra.Command {
	return withAnnotation(cmd, impactKey, impact)
}

// mostKey marks what a verb can do at most, where its flags or keys decide: a context permits the verb, and asks again for
// what they do.
const mostKey = "most"

func upTo(cmd *cobra.Command, impact string) *cobra.Command {
	return withAnnotation(cmd, mostKey, impact)
}

// mostOf is what a verb can do.
func mostOf(cmd *cobra.Command) string {
	return cmp.Or(cmd.Annotations[mostKey], impactOf(cmd))
}

// groupKey marks a command that only holds others.
const groupKey = "group"

func withAnnotation(cmd *cobra.Command, key, value string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[key] = value
	return cmd
}

func impactOf(cmd *cobra.Command) string {
	switch {
	case cmd.Annotations[impactKey] != "":
		return cmd.Annotations[impactKey]
	case cmd.Flags().Lookup("dry-run") != nil:
		return impactWrite
	}
	return impactRead
}

// permit refuses a verb that writes where the context is read-only, and asks where the context wants to be asked.
func (a *app) permit(cmd *cobra.Command) error {
	s := &a.settings
	impact := impactOf(cmd)
	if impact == impactRead || impact == impactLocal || s.contextErr != nil || isSet(cmd, "dry-run") {
		return nil
	}
	if s.chosen.ReadOnly {
		return &failure{
			code: exitAuth, err: fmt.Errorf("%s%s is read-only", verbPrefix(cmd), s.contextName()),
			try: "another --context, or leasectl config set " + escape.Shell(s.context) + " read_only=false",
		}
	}
	if isSet(cmd, "yes") || s.chosen.Confirm == "" || s.chosen.Confirm == contexts.ConfirmNone {
		return nil
	}
	if isSet(cmd, "no-input") || !isTerminal(a.in) {
		return usagef("the same with --yes", "%s%s wants a confirmation", verbPrefix(cmd), s.contextName())
	}
	want, prompt := "y", "[y/N]"
	if s.chosen.Confirm == contexts.ConfirmTypeName {
		want, prompt = s.context, "Type the name of the context:"
	}
	fmt.Fprintf(a.err, "%s in %s. %s ", cmd.CommandPath(), s.contextName(), prompt)
	answer, err := a.answer(cmd.Context())
	if cmd.Context().Err() != nil {
		return err
	}
	answer = strings.TrimSpace(answer)
	if err == nil && (answer == want || want == "y" && strings.EqualFold(answer, "yes")) {
		return nil
	}
	return &failure{code: exitFailed, err: fmt.Errorf("%snot confirmed, nothing changed", verbPrefix(cmd))}
}

func isSet(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f != nil && f.Value.String() == "true"
}
