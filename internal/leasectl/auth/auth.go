// Package auth is what leasectl auth does: who may do what, and the roles that say so.
package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/roles"
)

// New is leasectl auth.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "auth",
		Short: "Ask what one may do, and make roles that may do no more than they need",
		Long: `Ask what one may do, and make roles that may do no more than they need. Roles keep
queues and identities apart; who may write a queue's jobs can also spoil them.`,
		GroupID: cli.GroupOther,
		Example: `  leasectl auth whoami
  leasectl auth can-i work mail
  leasectl auth roles --queue mail --as node-a --role worker`,
	}, newAuthWhoami(a), newAuthCanI(a), newAuthRoles(a))
}

// queueRoles returns the roles for a queue.
func queueRoles(a *cli.App, c *connect.Conn, queue string) ([]roles.Role, error) {
	if err := keyspace.ValidateName("queue", queue); err != nil {
		return nil, err
	}
	return roles.For(c.Store().Keys(), queue, a.Settings.Identity), nil
}

func newAuthWhoami(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:     "whoami",
		Short:   "Show as whom one is logged in, with which roles",
		Example: `  leasectl auth whoami`,
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.RunItem(cmd.Context(), a, o, cli.Lister[roles.Granted]{
				View: output.View[roles.Granted]{
					Name: func(g roles.Granted) string { return escape.Ref("user", g.User) },
					Columns: []output.Column[roles.Granted]{
						{Head: "USER", Cell: func(g roles.Granted) string { return g.User }},
						{Head: "ROLES", Cell: func(g roles.Granted) string { return strings.Join(g.Roles, ",") }},
						{Head: "EVERYTHING", Cell: func(g roles.Granted) string { return output.YesNo(g.Everything) }},
					},
				},
				Load: func(ctx context.Context, c *connect.Conn) ([]roles.Granted, error) {
					g, err := a.Granted(ctx, c)
					return []roles.Granted{g}, err
				},
			})
		},
	}
	o.AddStaticFlags(cmd)
	return cmd
}

func newAuthCanI(a *cli.App) *cobra.Command {
	var verbs []string
	for _, b := range cli.Abilities {
		verbs = append(verbs, b.Verb)
	}
	return &cobra.Command{
		Use:   "can-i VERB QUEUE",
		Short: "Ask whether one may view, enqueue to, work, dispatch or repair a queue",
		Long: `Ask whether one may view, enqueue to, work, dispatch or repair a queue, as the roles
of the user say; nothing is tried. It prints yes, or no with each permission that is
missing on stderr, and exits with 4 for no; -o json has both in one object.`,
		Example: `  leasectl auth can-i work mail
  leasectl auth can-i work mail --as node-a && leasectl work mail -- ./send
  leasectl auth can-i work mail -o json | jq '.missing[].key'`,
		Args: cli.Takes("VERB", "QUEUE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return verbs, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(verbs, args[0])
			if i < 0 {
				return exit.Usagef(cli.HelpOf(cmd), "%sVERB is %q: it is one of %s", cli.VerbPrefix(cmd), args[0], strings.Join(verbs, ", "))
			}
			format, err := a.Format(output.Table, output.JSON)
			if err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				return canI(cmd.Context(), a, c, format, cli.Abilities[i].Role, args[0], args[1])
			})
		},
	}
}

// abilityItem is an answer of can-i in JSON.
type abilityItem struct {
	Verb    string             `json:"verb"`
	Queue   string             `json:"queue"`
	User    string             `json:"user"` // empty without authentication
	Allowed bool               `json:"allowed"`
	Missing []roles.Permission `json:"missing"`
}

func canI(ctx context.Context, a *cli.App, c *connect.Conn, format, role, verb, queue string) error {
	all, err := queueRoles(a, c, queue)
	if err != nil {
		return err
	}
	g, err := a.Granted(ctx, c)
	if err != nil {
		return err
	}
	wanted := all[slices.IndexFunc(all, func(r roles.Role) bool { return r.Name == role })]
	lacks := g.Lacks(wanted.Permissions)
	item := abilityItem{Verb: verb, Queue: queue, User: g.User, Allowed: len(lacks) == 0, Missing: append([]roles.Permission{}, lacks...)}
	if err := printAbility(a, format, item); err != nil || item.Allowed {
		return err
	}
	return &exit.Error{
		Code: exit.Auth, Err: fmt.Errorf("user %q may not %s queue %s", g.User, verb, queue),
		Try: fmt.Sprintf("leasectl auth roles --queue %s --role %s, for who may grant it", escape.Shell(queue), role),
	}
}

func printAbility(a *cli.App, format string, item abilityItem) error {
	if format == output.JSON {
		return output.PrintJSON(a.Out, item)
	}
	if err := a.PrintLine(output.YesNo(item.Allowed)); err != nil {
		return err
	}
	for _, p := range item.Missing {
		a.Notef("missing: %s on %s (%s)", p.Type, p.Key, p.Why)
	}
	return nil
}

type authRolesOptions struct {
	cli.Mutation
	queue string
	only  []string
	apply bool
}

func newAuthRoles(a *cli.App) *cobra.Command {
	var o authRolesOptions
	cmd := &cobra.Command{
		Use:   "roles --queue QUEUE",
		Short: "Print the etcd roles for a queue, or make them with --apply",
		Long: `Print the commands of etcdctl that make the roles for a queue, each with what it needs
and no more; with --apply make them, which takes the root role. Their names hold the
root, the queue and the identity, each escaped. A role of that name that holds
anything else is refused, and one that lacks something is extended; what is printed
for a shell ends where a role is there already. The roles:

  viewer      list, watch, describe, doctor; no change
  producer    enqueue, and wait for results
  worker      claim, take over, complete; and enqueue
  dispatcher  hand out jobs, beside everything that a worker can
  operator    everything under the root

With --as a role is for that identity (--as of every command, Identity in the
libraries): then it cannot end others' sessions. Give each fleet its identity. A role separates
queues, not the members of one: fencing guards against bugs, not against malice.`,
		Example: `  leasectl auth roles --queue mail
  leasectl auth roles --queue mail --as node-a --role worker | sh
  leasectl auth roles --queue mail --role producer,worker --apply --yes`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.queue == "" {
				return exit.Usagef("--queue QUEUE", "--queue is missing: roles are for one queue")
			}
			return runAuthRoles(cmd.Context(), a, o)
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.queue, "queue", "", "roles for `QUEUE`")
	cmd.Flags().StringSliceVar(&o.only, "role", nil, "only `ROLE`[,ROLE...]")
	cmd.Flags().BoolVar(&o.apply, "apply", false, "make the roles in etcd, as root")
	return cmd
}

func runAuthRoles(ctx context.Context, a *cli.App, o authRolesOptions) error {
	format, err := a.Format(output.Table, output.JSON, output.YAML)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		wanted, err := queueRoles(a, c, o.queue)
		if err != nil {
			return err
		}
		if wanted, err = pickRoles(wanted, o.only); err != nil {
			return err
		}
		if o.apply {
			return applyRoles(ctx, a, c, wanted, o)
		}
		if format != output.Table {
			return output.PrintList(output.Printer{W: a.Out, Format: format}, output.View[roles.Role]{}, wanted)
		}
		for _, line := range etcdctlLines(wanted) {
			if err := a.PrintLine(line); err != nil {
				return err
			}
		}
		return nil
	})
}

func pickRoles(all []roles.Role, only []string) (picked []roles.Role, err error) {
	if len(only) == 0 {
		return all, nil
	}
	for _, name := range only {
		i := slices.IndexFunc(all, func(r roles.Role) bool { return r.Name == name })
		if i < 0 {
			return nil, exit.Usagef("--role worker", "--role has %q: it is viewer, producer, worker, dispatcher or operator", name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// etcdctlLines is a script for a shell. It ends where a role is there already: what that holds, nobody has looked at.
func etcdctlLines(wanted []roles.Role) []string {
	lines := []string{"set -e"}
	for _, r := range wanted {
		lines = append(lines, "# "+r.Name+" can: "+r.Can+"; cannot: "+r.Cannot, "etcdctl role add "+escape.Shell(r.InEtcd))
		for _, p := range r.Permissions {
			lines = append(lines, "etcdctl "+p.Etcdctl(r.InEtcd)+" # "+p.Why)
		}
	}
	return lines
}

func applyRoles(ctx context.Context, a *cli.App, c *connect.Conn, wanted []roles.Role, o authRolesOptions) error {
	var names []string
	for _, r := range wanted {
		names = append(names, r.InEtcd)
	}
	a.Notef("%s: %smake or extend the roles %s", c.Where(), o.Would(), strings.Join(names, ", "))
	for _, r := range wanted { // all of them before anything changes
		if err := ownRole(ctx, a, c, r); err != nil {
			return err
		}
	}
	if err := a.Confirm(ctx, &o.Mutation, "Make or extend %s", output.Count(len(wanted), "role")); err != nil || o.DryRun {
		return err
	}
	for _, r := range wanted {
		bounded, cancel := a.Bounded(ctx)
		err := roles.Apply(bounded, c.Client, r.InEtcd, r.Permissions)
		cancel()
		if err != nil {
			return err
		}
		if err := a.PrintLine("role/" + r.InEtcd + " granted"); err != nil {
			return err
		}
	}
	return nil
}

// ownRole refuses a role of that name that holds more than it is for: whoever has it would be given this as well.
func ownRole(ctx context.Context, a *cli.App, c *connect.Conn, r roles.Role) error {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	others, err := roles.Others(ctx, c.Client, r.InEtcd, r.Permissions)
	if err != nil || len(others) == 0 {
		return err
	}
	return &exit.Error{
		Code: exit.Conflict, Err: fmt.Errorf("role %s holds what a %s does not need: %s", r.InEtcd, r.Name, strings.Join(others, ", ")),
		Try: "etcdctl role get " + escape.Shell(r.InEtcd) + ", and role revoke-permission or role delete what is not wanted",
	}
}
