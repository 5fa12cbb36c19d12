package leasectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/roles"
)

// need is what a command has to be permitted, as auth can-i asks for it.
type need struct {
	verb  string // one of abilities
	queue string // that it is about; empty: none in particular
}

// needed are what commands need, or all that write of a group. Others that write need repair.
var needed = map[string]string{"enqueue": "enqueue", "work": "work", "session": "work", "jobs": "work", "dispatch": "dispatch"}

// needOf reads off a command line what it needs.
func needOf(cmd *cobra.Command, args []string) need {
	n := need{verb: "view"}
	if impact := impactOf(cmd); impact == impactWrite || impact == impactDestroy {
		first, _, _ := strings.Cut(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), " ")
		n.verb = cmp.Or(needed[first], "repair")
	}
	if f := cmd.Flags().Lookup("queue"); f != nil {
		n.queue = f.Value.String()
	}
	switch first := firstPlaceholder(cmd.Use); {
	case len(args) == 0:
	case first == "QUEUE":
		n.queue = nameOfArg("queue", args[0])
	case first == "QUEUE/ID":
		if ref, err := parseJobRef(args[0]); err == nil {
			n.queue = ref.queue
		}
	}
	return n
}

// denied gives an error of etcd's the least that is missing for it, if that can be told: another identity, or a role.
func (a *app) denied(ctx context.Context, c *connection, err error) error {
	if _, try := explain(err); try != tryGrant || !etcdIs(rpctypes.ErrPermissionDenied)(err) {
		return err
	}
	store, serr := etcdkv.NewStore(c.Client, c.root, nil)
	g, gerr := a.granted(context.WithoutCancel(ctx), c)
	if serr != nil || gerr != nil || g.User == "" {
		return err
	}
	keys, n := store.Keys(), a.need
	i := slices.IndexFunc(abilities, func(b ability) bool { return b.verb == n.verb })
	role := abilities[i].role
	lacks := g.Lacks(n.permissions(keys, role, a.settings.identity))
	for _, identity := range g.Identities(keys) {
		if len(lacks) > 0 && len(g.Lacks(n.permissions(keys, role, identity))) == 0 {
			return &failure{err: err, try: "--as " + escape.Shell(identity) + ", the identity that the user's role is for"}
		}
	}
	queue, as, such := "QUEUE", "", ""
	if n.queue != "" {
		queue = escape.Shell(n.queue)
	}
	if a.settings.identity != "" {
		as = " --as " + escape.Shell(a.settings.identity)
	}
	if len(lacks) > 0 {
		such = ", such as " + lacks[0].Type + " on " + escape.Shell(lacks[0].Key)
	}
	return &failure{err: err, try: fmt.Sprintf("leasectl auth can-i %s %s%s, which names what is missing%s; for who may grant it: leasectl auth roles --queue %s%s --role %s",
		n.verb, queue, as, such, queue, as, role)}
}

// permissions are those of a role for an identity, without those for a queue where none is meant.
func (n need) permissions(keys keyspace.Keyspace, role, identity string) []roles.Permission {
	all := roles.For(keys, n.queue, identity)
	wanted := all[slices.IndexFunc(all, func(r roles.Role) bool { return r.Name == role })].Permissions
	if n.queue == "" {
		wanted = slices.DeleteFunc(wanted, func(p roles.Permission) bool {
			return strings.HasPrefix(p.Key, keys.Queues()) || strings.HasPrefix(p.Key, keys.Elections())
		})
	}
	return wanted
}

func (a *app) granted(ctx context.Context, c *connection) (roles.Granted, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return roles.Ask(ctx, c.Client, c.Username)
}

// abilities are what can-i asks for, and the role that has it.
type ability struct{ verb, role string }

var abilities = []ability{
	{"view", roles.Viewer}, {"enqueue", roles.Producer}, {"work", roles.Worker}, {"dispatch", roles.Dispatcher}, {"repair", roles.Operator},
}
