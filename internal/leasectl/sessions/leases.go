package sessions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
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
	return cli.NewList(a, &cobra.Command{
		Use:   "ls",
		Short: "List the leases with what is left of them",
		Long: `List the leases that keys under the root hang on, with what is left of them and what
was granted. An ID is in hex, as etcdctl takes it.`,
		Example: `  leasectl leases ls
  leasectl leases ls -o json | jq -r '.items[].lease'`,
	}, cli.Lister[leaseItem]{
		View: leaseView, Prefixes: leasePrefixes,
		Load: func(ctx context.Context, c *connect.Conn) ([]leaseItem, error) { return readLeases(ctx, a, c) },
	})
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
					l, err := findLease(ctx, a, c, args[0], ids)
					return []leaseItem{l}, err
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

// leaseItem is a lease that keys under the root hang on.
type leaseItem struct {
	Lease   string   `json:"lease"` // hex
	Kind    string   `json:"kind"`  // session, lane or retention
	Owner   string   `json:"owner,omitempty"`
	Keys    int      `json:"keys"`
	TTLLeft int64    `json:"ttl_left_seconds"`
	TTL     int64    `json:"ttl_seconds"` // 0: it is gone, and its keys go with it
	Sample  []string `json:"sample"`      // some of its keys
}

// maxSample is how many keys of a lease are named.
const maxSample = 20

// readLeases finds the leases by their keys: etcd's own list of leases is denied to everybody but root as soon as a
// lease holds a key that is not ours.
func readLeases(ctx context.Context, a *cli.App, c *connect.Conn) ([]leaseItem, error) {
	store := c.Store()
	keys := store.Keys()
	prefixes := []string{keys.Sessions(), keys.Lanes(), keys.Locks(), keys.Elections(), keys.Semaphores()}
	names, err := c.Queues().Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range names {
		qk := keys.Queue(q)
		prefixes = append(prefixes, qk.Workers(), qk.DoneJobs(), qk.RefusedWrites())
	}
	found := leaseFinder{keys: keys, leases: map[clientv3.LeaseID]*leaseItem{}}
	if _, err := store.ScanEach(ctx, prefixes, 0, func(_ int, kvs []*mvccpb.KeyValue) bool { return found.take(kvs) }); err != nil {
		return nil, err
	}
	times, err := look.LeaseTimes(ctx, c, slices.Collect(maps.Keys(found.leases)))
	if err != nil {
		return nil, err
	}
	items := []leaseItem{}
	for id, l := range found.leases {
		l.TTLLeft, l.TTL = int64(times[id].Left/time.Second), int64(times[id].Granted/time.Second)
		items = append(items, *l)
	}
	slices.SortFunc(items, func(a, b leaseItem) int {
		return strings.Compare(a.Kind+"\x00"+a.Owner+"\x00"+a.Lease, b.Kind+"\x00"+b.Owner+"\x00"+b.Lease)
	})
	return items, nil
}

// leaseFinder collects leases from keys.
type leaseFinder struct {
	keys   keyspace.Keyspace
	leases map[clientv3.LeaseID]*leaseItem
}

func (f *leaseFinder) take(kvs []*mvccpb.KeyValue) bool {
	for _, kv := range kvs {
		p, ok := f.keys.Parse(string(kv.Key))
		if !ok || kv.Lease == 0 {
			continue
		}
		l := f.leases[clientv3.LeaseID(kv.Lease)]
		if l == nil {
			l = &leaseItem{Lease: look.LeaseHex(clientv3.LeaseID(kv.Lease)), Kind: "retention"}
			f.leases[clientv3.LeaseID(kv.Lease)] = l
		}
		if l.Keys++; len(l.Sample) < maxSample {
			l.Sample = append(l.Sample, string(kv.Key))
		}
		switch p.Kind {
		case "sessions":
			l.Kind, l.Owner = "session", p.Session
		case "lanes":
			l.Kind, l.Owner = "lane", p.Session
		case "done", "refused":
		default: // on the lease of its session, whose key may be gone
			if l.Kind = "session"; l.Owner == "" {
				l.Owner = p.Session
			}
		}
	}
	return true
}

var leaseView = output.View[leaseItem]{
	Name: func(l leaseItem) string { return "lease/" + l.Lease },
	Columns: []output.Column[leaseItem]{
		{Head: "LEASE", Cell: func(l leaseItem) string { return l.Lease }},
		{Head: "KIND", Cell: func(l leaseItem) string { return l.Kind }},
		{Head: "OWNER", Cell: func(l leaseItem) string { return l.Owner }},
		{Head: "KEYS", Cell: func(l leaseItem) string { return fmt.Sprint(l.Keys) }},
		{Head: "TTL", Cell: func(l leaseItem) string {
			if l.TTL == 0 {
				return "gone"
			}
			return fmt.Sprintf("%ds/%ds", l.TTLLeft, l.TTL)
		}},
	},
}
