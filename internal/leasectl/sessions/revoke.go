package sessions

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leftover"
)

func newLeasesRevoke(a *cli.App) *cobra.Command {
	var m cli.Mutation
	cmd := &cobra.Command{
		Use:   "revoke LEASE",
		Short: "End a lease of a session or a lane, with its keys",
		Long: `End a lease at once, with all keys that hang on it. A session's owner is told and
stops, and its claims can be taken over at once: see workers evict, which also gives
its jobs back. A lane's owner does not know of the writes that are under way whether
they happened, and goes on with another lane. Other leases are not ended here: those
of finished jobs are what jobs delete is for. The ID has to be typed again.`,
		Example: `  leasectl leases revoke 390da227f8f8ce2f
  leasectl leases revoke 390da227f8f8ce2f --dry-run`,
		Args: cli.Takes("LEASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseLease(args[0])
			if err != nil {
				return err
			}
			return runRevoke(cmd.Context(), a, args[0], ids, m)
		},
	}
	m.AddTracelessFlags(cmd.Flags())
	return cli.Destroys(cmd)
}

// runRevoke looks at the lease by its keys, says what it holds, asks, and ends exactly that one.
func runRevoke(ctx context.Context, a *cli.App, name string, ids []clientv3.LeaseID, m cli.Mutation) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		l, err := findLease(ctx, a, c, name, ids)
		if err != nil {
			return err
		}
		store := c.Store()
		key, created, err := anchorOf(ctx, store, l)
		if err != nil {
			return err
		}
		a.Notef("%s: %srevoke lease %s (%s %s, %s, %ds of %ds left)", c.Where(), m.Would(), l.Lease, l.Kind, l.Owner, output.Count(l.Keys, "key"), l.TTLLeft, l.TTL)
		if m.DryRun {
			return nil
		}
		statement := fmt.Sprintf("This ends lease %s of %s %s in %s, with %s", l.Lease, l.Kind, l.Owner, c.Where(), output.Count(l.Keys, "key"))
		if err := a.ConfirmTyped(ctx, &m, "lease", l.Lease, statement); err != nil {
			return err
		}
		ctx, cancel := a.Bounded(ctx)
		defer cancel()
		if _, err := leftover.EndLease(ctx, store, key, created); err != nil {
			return err
		}
		return a.PrintDone(format, l, "lease/"+l.Lease, fmt.Sprintf("lease/%s revoked (%s %s, %s)", l.Lease, l.Kind, l.Owner, output.Count(l.Keys, "key")))
	})
}

func findLease(ctx context.Context, a *cli.App, c *connect.Conn, name string, ids []clientv3.LeaseID) (leaseItem, error) {
	items, err := readLeases(ctx, a, c)
	if err != nil {
		return leaseItem{}, err
	}
	for _, id := range ids {
		if i := slices.IndexFunc(items, func(l leaseItem) bool { return l.Lease == look.LeaseHex(id) }); i >= 0 {
			return items[i], nil
		}
	}
	return leaseItem{}, &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("no key under %s hangs on lease %s", c.Root, name), Try: "leasectl leases ls"}
}

// anchorOf returns the key by which a lease is a session's or a lane's, and its create revision.
func anchorOf(ctx context.Context, s *etcdkv.Store, l leaseItem) (key string, created int64, err error) {
	for _, key := range l.Sample {
		p, ok := s.Keys().Parse(key)
		if !ok || p.Kind != "sessions" && p.Kind != "lanes" {
			continue
		}
		resp, err := s.Get(ctx, key)
		if err != nil {
			return "", 0, err
		}
		if len(resp.Kvs) == 1 && look.LeaseHex(clientv3.LeaseID(resp.Kvs[0].Lease)) == l.Lease {
			return key, resp.Kvs[0].CreateRevision, nil
		}
	}
	return "", 0, &exit.Error{Code: exit.Conflict, Err: fmt.Errorf("revoke lease %s: it is the lease of no session and no lane, but of %s", l.Lease, l.Kind), Try: "leasectl leases get " + l.Lease + " -o json"}
}
