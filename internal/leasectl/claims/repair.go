package claims

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/line"
)

// claimRepair takes a claim from its owner, on somebody's behalf.
type claimRepair struct {
	claimNoun
	verb, past string
}

// claimRepairOptions are the flags of every such repair.
type claimRepairOptions struct {
	cli.Mutation
	to    string
	token int64
}

func (o *claimRepairOptions) addFlags(cmd *cobra.Command) {
	o.Mutation.AddFlags(cmd.Flags())
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the claim still has token `N`, as get shows it")
}

// newClaimRepair completes the command of a repair; check looks at its own flags.
func newClaimRepair(a *cli.App, r claimRepair, o *claimRepairOptions, check func(cmd *cobra.Command) error, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("token") && o.token <= 0 {
			return exit.Usagef("leasectl "+r.plural+" get "+escape.Shell(args[0]), "--token is %d: it must be positive", o.token)
		}
		if err := check(cmd); err != nil {
			return err
		}
		return runClaimRepair(cmd.Context(), a, r, args[0], *o)
	}
	o.addFlags(cmd)
	return cmd
}

// runClaimRepair looks at the claim, says what it found and where, asks, and acts only on exactly that: the action is
// guarded by the token that was shown.
func runClaimRepair(ctx context.Context, a *cli.App, r claimRepair, name string, o claimRepairOptions) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		s := c.Store()
		seen, err := readClaim(ctx, a, s, r.claimNoun, name)
		if err != nil {
			return err
		}
		to, err := r.check(name, seen, o)
		if err != nil {
			return err
		}
		a.Notef("%s: %s%s %s from %s (token %d) to %s", c.Where(), o.Would(), r.verb, r.ref(name), seen.Owner, seen.Token, heirOf(to))
		if err := a.Confirm(ctx, &o.Mutation, "Take %s from %s, which may still be running", r.ref(name), seen.Owner); err != nil || o.DryRun {
			return err
		}
		bounded, cancel := a.Bounded(ctx)
		defer cancel()
		if o.to == "" {
			to = "" // not the one shown: whoever is first by then
		}
		if err := line.ForceRelease(bounded, s, seen, to, cli.Actor(), o.Reason); err != nil {
			return err
		}
		return output.Told(r.ref(name)+" "+r.past, printClaimRepaired(bounded, a, format, r, s, name))
	})
}

// check returns whom the claim would go to, or the error that the repair would end with.
func (r claimRepair) check(name string, seen line.State, o claimRepairOptions) (to string, err error) {
	try := "leasectl " + r.plural + " get " + escape.Shell(name)
	switch {
	case seen.Owner == "":
		return "", &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("%s %s: nobody has it", r.verb, r.ref(name)), Try: try}
	case o.token != 0 && o.token != seen.Token:
		return "", &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("%s %s: it has moved: its token is %d, not %d", r.verb, r.ref(name), seen.Token, o.token), Try: try}
	case o.to != "":
		return successor(seen, name, o.to)
	case len(seen.Waiters) > 0:
		return seen.Waiters[0], nil
	}
	return "", nil
}

func heirOf(to string) string {
	if to == "" {
		return "nobody, since nobody waits"
	}
	return to
}

func printClaimRepaired(ctx context.Context, a *cli.App, format string, r claimRepair, s *etcdkv.Store, name string) error {
	if format == output.Name {
		return a.PrintLine(r.ref(name))
	}
	st, err := r.state(ctx, s, name)
	if err != nil {
		return err
	}
	switch {
	case format == output.JSON:
		return output.PrintItem(output.Printer{W: a.Out, Format: format}, r.view(), r.item(st))
	case st.Owner == "":
		return a.PrintLine(r.ref(name) + " " + r.past + " (" + r.free + ")")
	}
	return a.PrintLine(fmt.Sprintf("%s %s (now %s, token %d)", r.ref(name), r.past, st.Owner, st.Token))
}
