package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/leasectl/claims"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// etcdItem is the cluster, as one of its members tells it.
type etcdItem struct {
	Endpoint string `json:"endpoint"` // the member that was asked
	Members  int    `json:"members"`  // 0: not known
	Leader   string `json:"leader"`   // empty: none, or not known
	DBSize   int64  `json:"db_size_bytes"`
	DBQuota  int64  `json:"db_quota_bytes"`
	Revision string `json:"revision"`
	Version  string `json:"version"`
	verified bool
	answered bool
}

// memberTimeout bounds the question to one member.
const memberTimeout = time.Second

// readEtcd asks the first endpoint that answers. What a user may not ask stays empty.
func readEtcd(ctx context.Context, client *clientv3.Client, endpoints []string) etcdItem {
	item := askMember(ctx, client, endpoints)
	item.verified = true
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	if members, err := client.MemberList(ctx); err == nil {
		item.Members = len(members.Members)
		for _, m := range members.Members {
			if fmt.Sprintf("%x", m.ID) == item.Leader {
				item.Leader = m.Name
			}
		}
	}
	return item
}

// askMember asks members of themselves, without a majority, until one answers.
func askMember(ctx context.Context, client *clientv3.Client, endpoints []string) etcdItem {
	item := etcdItem{Endpoint: endpoints[0], Revision: "0"}
	for _, ep := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		s, err := client.Status(ctx, ep)
		cancel()
		if err != nil {
			continue
		}
		item = etcdItem{
			Endpoint: ep, DBSize: s.DbSizeInUse, DBQuota: s.DbSizeQuota, Revision: fmt.Sprint(s.Header.Revision), Version: s.Version, answered: true,
		}
		if s.Leader != 0 {
			item.Leader = fmt.Sprintf("%x", s.Leader)
		}
		return item
	}
	return item
}

func (e etcdItem) text() string {
	var parts []string
	switch {
	case !e.verified:
		parts = append(parts, "unverified (no quorum)")
	case e.Members > 0:
		parts = append(parts, output.Count(e.Members, "member"))
	}
	if e.Leader != "" {
		parts = append(parts, "leader "+e.Leader)
	}
	if e.answered {
		db := "db " + sizeText(e.DBSize)
		if e.DBQuota > 0 {
			db += "/" + sizeText(e.DBQuota)
		}
		parts = append(parts, db, "rev "+e.Revision)
	}
	if parts == nil {
		return e.Endpoint
	}
	return e.Endpoint + " (" + strings.Join(parts, ", ") + ")"
}

// sizeText is a size in the unit that people would take.
func sizeText(n int64) string {
	const unit = 1 << 10
	switch {
	case n < unit:
		return fmt.Sprintf("%dB", n)
	case n < unit*unit:
		return fmt.Sprintf("%dKiB", n/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%dMiB", n/unit/unit)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/unit/unit/unit), ".0") + "GiB"
}

// unverifiedStatus shows what one member says of itself when no majority answers. It returns why there is none.
func unverifiedStatus(ctx context.Context, a *cli.App, format string, why error) error {
	t, err := a.Settings.Target(ctx, a.Getenv)
	if err != nil {
		return why
	}
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: t.Endpoints, TLS: t.TLS, Logger: zap.NewNop()}) // without logging in, which needs a majority
	if err != nil {
		return why
	}
	defer func() { _ = client.Close() }()
	e := askMember(ctx, client, t.Endpoints)
	if !e.answered {
		return why // nobody there, which the error says better
	}
	problem := look.Problem{Code: "E4", Message: "etcd has no leader that a majority of its members agrees on", Run: "etcdctl endpoint status --cluster"}
	st := statusItem{
		Context: a.Settings.Context, Root: t.Root, Etcd: e, Leaders: []claims.Item{}, Queues: []look.Queue{},
		Problems: []look.Problem{problem}, Recent: look.Recent{Since: time.Now().UTC().Truncate(time.Millisecond)},
	}
	if err := printStatus(a, format, st); err != nil {
		return err
	}
	return &exit.Error{Code: exit.Unreachable, Err: fmt.Errorf("status is unverified (no quorum): %w", why)}
}
