package doctor

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/roles"
)

// allowed asks what the user may do. Where that cannot be known everything is tried, and what is denied will show.
func allowed(ctx context.Context, client *clientv3.Client, user string) roles.Granted {
	g, err := roles.Ask(ctx, client, user)
	if err != nil || user == "" {
		return roles.Granted{Everything: true}
	}
	return g
}

// span is the range of keys from one to before another.
func span(from, end string) roles.Span { return roles.Span{From: from, End: end} }
