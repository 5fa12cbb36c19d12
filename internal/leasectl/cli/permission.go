package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/roles"
)

// Need is what a command has to be permitted, as auth can-i asks for it.
type Need struct {
	verb  string // one of abilities
	queue string // that it is about; empty: none in particular
}

// needed are what commands need, or all that write of a group. Others that write need repair.
var needed = map[string]string{"enqueue": "enqueue", "work": "work", "session": "work", "jobs": "work", "dispatch": "dispatch"}

// NeedOf reads off a command line what it needs.
func NeedOf(cmd *cobra.Command, args []string) Need {
	n := Need{verb: "view"}
	if impact := ImpactOf(cmd); impact == ImpactWrite || impact == ImpactDestroy {
		first, _, _ := strings.Cut(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), " ")
		n.verb = cmp.Or(needed[first], "repair")
	}
	if f := cmd.Flags().Lookup("queue"); f != nil {
		n.queue = f.Value.String()
	}
	switch first := FirstPlaceholder(cmd.Use); {
	case len(args) == 0:
	case first == "QUEUE":
		n.queue = nameOfArg("queue", args[0])
	case first == "QUEUE/ID":
		if ref, err := ParseJobRef(args[0]); err == nil {
			n.queue = ref.Queue
		}
	}
	return n
}

// Denied gives an error of etcd's the least that is missing for it, if that can be told: another identity, or a role.
func (a *App) Denied(ctx context.Context, c *connect.Conn, err error) error {
	if _, try := exit.Explain(err); try != exit.TryGrant || !exit.EtcdIs(rpctypes.ErrPermissionDenied)(err) {
		return err
	}
	g, gerr := a.Granted(context.WithoutCancel(ctx), c)
	if gerr != nil || g.User == "" {
		return err
	}
	keys, n := c.Store().Keys(), a.Need
	i := slices.IndexFunc(Abilities, func(b ability) bool { return b.Verb == n.verb })
	role := Abilities[i].Role
	lacks := g.Lacks(n.permissions(keys, role, a.Settings.Identity))
	for _, identity := range g.Identities(keys) {
		if len(lacks) > 0 && len(g.Lacks(n.permissions(keys, role, identity))) == 0 {
			return &exit.Error{Err: err, Try: "--as " + escape.Shell(identity) + ", the identity that the user's role is for"}
		}
	}
	queue, as, such := "QUEUE", "", ""
	if n.queue != "" {
		queue = escape.Shell(n.queue)
	}
	if a.Settings.Identity != "" {
		as = " --as " + escape.Shell(a.Settings.Identity)
	}
	if len(lacks) > 0 {
		such = ", such as " + lacks[0].Type + " on " + escape.Shell(lacks[0].Key)
	}
	return &exit.Error{Err: err, Try: fmt.Sprintf("leasectl auth can-i %s %s%s, which names what is missing%s; for who may grant it: leasectl auth roles --queue %s%s --role %s",
		n.verb, queue, as, such, queue, as, role)}
}

// permissions are those of a role for an identity, without those for a queue where none is meant.
func (n Need) permissions(keys keyspace.Keyspace, role, identity string) []roles.Permission {
	all := roles.For(keys, n.queue, identity)
	wanted := all[slices.IndexFunc(all, func(r roles.Role) bool { return r.Name == role })].Permissions
	if n.queue == "" {
		wanted = slices.DeleteFunc(wanted, func(p roles.Permission) bool {
			return strings.HasPrefix(p.Key, keys.Queues()) || strings.HasPrefix(p.Key, keys.Elections())
		})
	}
	return wanted
}

// Granted is what the user of the connection may do.
func (a *App) Granted(ctx context.Context, c *connect.Conn) (roles.Granted, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	return roles.Ask(ctx, c.Client, c.Username)
}

// abilities are what can-i asks for, and the role that has it.
type ability struct{ Verb, Role string }

// Abilities are what can be asked about, and the role that each needs.
var Abilities = []ability{
	{"view", roles.Viewer}, {"enqueue", roles.Producer}, {"work", roles.Worker}, {"dispatch", roles.Dispatcher}, {"repair", roles.Operator},
}
