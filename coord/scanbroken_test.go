package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
)

// A list whose connection breaks ends with an error that says that etcd is away, and never with a cancellation, which
// would tell whoever retries that there is no use in it. A reader that ends it itself hears its own cause.
func TestABrokenListIsNoCancellation(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	proxy, cl := cluster.Proxy(0), cluster.ProxiedClient(t)
	store, err := etcdkv.NewStore(cl, etcdtest.Root(t), nil)
	must(t, err)
	prefix := store.Keys().Root() + "x/"
	const n, size = 24, 128 << 10
	for i := range n {
		_, err := cluster.Client(t).Put(within(t), fmt.Sprintf("%s%03d", prefix, i), string(make([]byte, size)))
		must(t, err)
	}
	lists := map[string]func(ctx context.Context, each func()) error{
		"scan": func(ctx context.Context, each func()) error {
			_, err := store.Scan(ctx, prefix, 0, func([]*mvccpb.KeyValue) bool { each(); return true })
			return err
		},
		"scan of names": func(ctx context.Context, each func()) error {
			return store.ScanNames(ctx, prefix, func(string) string { each(); return "" })
		},
		"scan of each": func(ctx context.Context, each func()) error {
			_, err := store.ScanEach(ctx, []string{prefix, prefix + "0", prefix}, 0, func(int, []*mvccpb.KeyValue) bool { each(); return true })
			return err
		},
	}
	whole := func(list func(context.Context, func()) error) {
		t.Helper()
		ctx := within(t)
		err := list(ctx, func() {})
		for err != nil && ctx.Err() == nil { // on a busy machine etcd may not send in time
			err = list(ctx, func() {})
		}
		must(t, err)
	}
	for name, list := range lists {
		whole(list)
		proxy.Refuse()
		if err := list(within(t), func() {}); err == nil || errors.Is(err, context.Canceled) || status.Code(rootOf(err)) == codes.Canceled {
			t.Errorf("%s of an etcd that is away: %v", name, err)
		}
		proxy.Heal()
		whole(list)
	}
	read := 0
	_, err = store.Scan(within(t), prefix, 0, func(kvs []*mvccpb.KeyValue) bool {
		if read += len(kvs); read < n {
			proxy.Drop()
		}
		return true
	})
	if err == nil && read < n || errors.Is(err, context.Canceled) || status.Code(rootOf(err)) == codes.Canceled {
		t.Errorf("a scan that was cut after %d keys: %v", read, err)
	}
	ctx, cancel := context.WithCancelCause(within(t))
	why := errors.New("enough")
	_, err = store.Scan(ctx, prefix, 0, func([]*mvccpb.KeyValue) bool { cancel(why); return true })
	if !errors.Is(err, why) {
		t.Errorf("a scan that its reader ended: %v", err)
	}
}

// rootOf is the innermost error.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
