package sessions

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
)

// NewLeases is leasectl leases.
func NewLeases(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "leases",
		Short: "Look at the leases that keys under the root hang on",
		Long: `Look at the leases that keys under the root hang on: of sessions, of lanes (through
which each process writes), and of finished jobs that are kept for a while. They are
found by their keys, so that no right beyond reading the root is needed.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl leases ls
  leasectl leases get 390da227f8f8ce2f`,
		Aliases: []string{"lease"},
	}, newLeasesLs(a), newLeasesGet(a), newLeasesRevoke(a))
}

func leasePrefixes(keys keyspace.Keyspace) []string { return []string{keys.Root()} }

func newLeasesLs(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the leases with what is left of them",
		Long: `List the leases that keys under the root hang on, with what is left of them and what
was granted. An ID is in hex, as etcdctl takes it.`,
		Example: `  leasectl leases ls
  leasectl leases ls -o json | jq -r '.items[].lease'`,
		Aliases: []string{"list"},
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.RunList(cmd.Context(), a, o, cli.Lister[leaseItem]{View: leaseView, Load: func(ctx context.Context, c *connect.Conn) ([]leaseItem, error) { return readLeases(ctx, a, c) }, Prefixes: leasePrefixes})
		},
	}
	o.AddFlags(cmd)
	return cmd
}

func newLeasesGet(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "get LEASE",
		Short: "Show one lease, in JSON with some of its keys",
		Long: `Show one lease, in JSON with some of its keys. Its ID may be in hex, as leasectl and
etcdctl print it, or in decimal, as etcd's JSON has it.`,
		Example: `  leasectl leases get 390da227f8f8ce2f -o json
  leasectl leases get 4111120327423610415`,
		Args: cli.Takes("LEASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseLease(args[0])
			if err != nil {
				return err
			}
			return cli.RunItem(cmd.Context(), a, o, cli.Lister[leaseItem]{
				View: leaseView, Prefixes: leasePrefixes,
				Load: func(ctx context.Context, c *connect.Conn) ([]leaseItem, error) {
					items, err := readLeases(ctx, a, c)
					if err != nil {
						return nil, err
					}
					for _, id := range ids {
						for _, l := range items {
							if l.Lease == look.LeaseHex(id) {
								return []leaseItem{l}, nil
							}
						}
					}
					return nil, &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("no key under %s hangs on lease %s", c.Root, args[0]), Try: "leasectl leases ls"}
				},
			})
		},
	}
	o.AddFlags(cmd)
	return cmd
}

// parseLease reads an ID in hex, and also in decimal where it can be that.
func parseLease(text string) (ids []clientv3.LeaseID, err error) {
	text = strings.TrimPrefix(text, "lease/")
	if n, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64); err == nil && n > 0 {
		ids = append(ids, clientv3.LeaseID(n))
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		ids = append(ids, clientv3.LeaseID(n))
	}
	if ids == nil {
		return nil, exit.Usagef("leasectl leases ls", "LEASE is %q: want hex digits such as 390da227f8f8ce2f", text)
	}
	return ids, nil
}
