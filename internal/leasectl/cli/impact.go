package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// What a verb does to the cluster. It stands in the help, in the schema, and decides whether a context permits it.
const (
	ImpactRead    = "read"
	ImpactWrite   = "write"
	ImpactLocal   = "local"   // only what it starts itself, or the endpoints that are named for it, or files of this machine
	ImpactDestroy = "destroy" // what it takes away cannot be brought back
)

const impactKey = "impact"

// Writes marks a verb that changes something in the cluster. One with --dry-run is taken for one that writes, every other
// for one that reads.
func Writes(cmd *cobra.Command) *cobra.Command { return WithImpact(cmd, ImpactWrite) }

// Destroys marks a verb that deletes.
func Destroys(cmd *cobra.Command) *cobra.Command { return WithImpact(cmd, ImpactDestroy) }

// StaysHome marks a verb that has an etcd of its own, or needs none.
func StaysHome(cmd *cobra.Command) *cobra.Command { return WithImpact(cmd, ImpactLocal) }

// WithImpact marks what a verb does.
func WithImpact(cmd *cobra.Command, impact string) *cobra.Command {
	return withAnnotation(cmd, impactKey, impact)
}

// mostKey marks what a verb can do at most, where its flags or keys decide: a context permits the verb, and asks again for
// what they do.
const mostKey = "most"

// UpTo marks what a verb can do at most.
func UpTo(cmd *cobra.Command, impact string) *cobra.Command {
	return withAnnotation(cmd, mostKey, impact)
}

// MostOf is what a verb can do.
func MostOf(cmd *cobra.Command) string {
	return cmp.Or(cmd.Annotations[mostKey], ImpactOf(cmd))
}

// GroupKey marks a command that only holds others.
const GroupKey = "group"

func withAnnotation(cmd *cobra.Command, key, value string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[key] = value
	return cmd
}

// ImpactOf is what a verb does.
func ImpactOf(cmd *cobra.Command) string {
	switch {
	case cmd.Annotations[impactKey] != "":
		return cmd.Annotations[impactKey]
	case cmd.Flags().Lookup("dry-run") != nil:
		return ImpactWrite
	}
	return ImpactRead
}

// Permit refuses a verb that writes where the context is read-only, and asks where the context wants to be asked.
func (a *App) Permit(cmd *cobra.Command) error {
	s := &a.Settings
	impact := ImpactOf(cmd)
	if impact == ImpactRead || impact == ImpactLocal || s.ContextErr != nil || IsSet(cmd, "dry-run") {
		return nil
	}
	if s.Chosen.ReadOnly {
		return &exit.Error{
			Code: exit.Auth, Err: fmt.Errorf("%s%s is read-only", VerbPrefix(cmd), s.ContextName()),
			Try: "another --context, or leasectl config set " + escape.Shell(s.Context) + " read_only=false",
		}
	}
	if IsSet(cmd, "yes") || s.Chosen.Confirm == "" || s.Chosen.Confirm == contexts.ConfirmNone {
		return nil
	}
	if IsSet(cmd, "no-input") || !output.IsTerminal(a.In) {
		return exit.Usagef("the same with --yes", "%s%s wants a confirmation", VerbPrefix(cmd), s.ContextName())
	}
	want, prompt := "y", "[y/N]"
	if s.Chosen.Confirm == contexts.ConfirmTypeName {
		want, prompt = s.Context, "Type the name of the context:"
	}
	fmt.Fprintf(a.Err, "%s in %s. %s ", cmd.CommandPath(), s.ContextName(), prompt)
	answer, err := a.answer(cmd.Context())
	if cmd.Context().Err() != nil {
		return err
	}
	answer = strings.TrimSpace(answer)
	if err == nil && (answer == want || want == "y" && strings.EqualFold(answer, "yes")) {
		return nil
	}
	return &exit.Error{Code: exit.Failed, Err: fmt.Errorf("%snot confirmed, nothing changed", VerbPrefix(cmd))}
}

// IsSet tells whether a flag of that name is there and set.
func IsSet(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f != nil && f.Value.String() == "true"
}
