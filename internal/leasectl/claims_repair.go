package leasectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/line"
)

// claimRepair takes a claim from its owner, on somebody's behalf.
type claimRepair struct {
	claimNoun
	verb, past string
}

// claimRepairOptions are the flags of every such repair.
type claimRepairOptions struct {
	mutation
	to    string
	token int64
}

func (o *claimRepairOptions) addFlags(cmd *cobra.Command) {
	o.mutation.addFlags(cmd.Flags())
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the claim still has token `N`, as get shows it")
}

// newClaimRepair completes the command of a repair; check looks at its own flags.
func newClaimRepair(a *app, r claimRepair, o *claimRepairOptions, check func(cmd *cobra.Command) error, cmd *cobra.Command) *cobra.Command {
	cmd.Args = takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("token") && o.token <= 0 {
			return usagef("leasectl "+r.plural+" get "+escape.Shell(args[0]), "--token is %d: it must be positive", o.token)
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
func runClaimRepair(ctx context.Context, a *app, r claimRepair, name string, o claimRepairOptions) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(c *connection, s *etcdkv.Store) error {
		seen, err := readClaim(ctx, a, s, r.claimNoun, name)
		if err != nil {
			return err
		}
		to, err := r.check(name, seen, o)
		if err != nil {
			return err
		}
		would := ""
		if o.dryRun {
			would = "would "
		}
		a.notef("%s: %s%s %s from %s (token %d) to %s", c.where(), would, r.verb, r.ref(name), seen.Owner, seen.Token, heirOf(to))
		if err := a.confirm(ctx, &o.mutation, "Take %s from %s, which may still be running", r.ref(name), seen.Owner); err != nil || o.dryRun {
			return err
		}
		bounded, cancel := a.bounded(ctx)
		defer cancel()
		if o.to == "" {
			to = "" // not the one shown: whoever is first by then
		}
		if err := line.ForceRelease(bounded, s, seen, to, actor(), o.reason); err != nil {
			return err
		}
		return told(r.ref(name)+" "+r.past, printClaimRepaired(bounded, a, format, r, s, name))
	})
}

// check returns whom the claim would go to, or the error that the repair would end with.
func (r claimRepair) check(name string, seen line.State, o claimRepairOptions) (to string, err error) {
	try := "leasectl " + r.plural + " get " + escape.Shell(name)
	switch {
	case seen.Owner == "":
		return "", &failure{code: exitConflict, err: fmt.Errorf("%s %s: nobody has it", r.verb, r.ref(name)), try: try}
	case o.token != 0 && o.token != seen.Token:
		return "", &failure{code: exitConflict, err: fmt.Errorf("%s %s: it has moved: its token is %d, not %d", r.verb, r.ref(name), seen.Token, o.token), try: try}
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

func printClaimRepaired(ctx context.Context, a *app, format string, r claimRepair, s *etcdkv.Store, name string) error {
	if format == formatName {
		return a.printLine(r.ref(name))
	}
	st, err := r.state(ctx, s, name)
	if err != nil {
		return err
	}
	switch {
	case format == formatJSON:
		return printItem(printer{w: a.out, format: format}, r.view(), r.item(st))
	case st.Owner == "":
		return a.printLine(r.ref(name) + " " + r.past + " (" + r.free + ")")
	}
	return a.printLine(fmt.Sprintf("%s %s (now %s, token %d)", r.ref(name), r.past, st.Owner, st.Token))
}
