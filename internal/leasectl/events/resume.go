package events

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// resumeEvents waits until etcd answers behind a watch that broke, and returns the revision to go on from: where it was,
// or what is next now when history went back. It tells which. last is the last that
// was seen to be put, nil when there was nothing.
func resumeEvents(ctx context.Context, a *cli.App, store *etcdkv.Store, prefix string, next int64, last *mvccpb.KeyValue) (int64, error) {
	rest := time.NewTimer(cli.WatchEvery)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-rest.C:
	}
	for {
		now, gone, err := rewoundTo(ctx, store, prefix, next, last)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			if err := connect.Outlast(ctx, true, nil, err); err != nil {
				return 0, err
			}
			continue
		case gone:
			a.Notef("%s; going on from revision %d, without what happened there before", connect.WentBack, now+1)
			return now + 1, nil
		}
		a.Notef("the watch broke; going on from revision %d", next)
		return next, nil
	}
}

// rewoundTo tells etcd's revision, and whether its history is another one than that in which all below next was seen: it
// is too short, or has something else where last was put.
func rewoundTo(ctx context.Context, store *etcdkv.Store, prefix string, next int64, last *mvccpb.KeyValue) (now int64, gone bool, err error) {
	resp, err := store.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	switch {
	case errors.Is(err, coord.ErrHistoryRewound):
		return resp.Header.Revision, true, nil
	case err != nil:
		return 0, false, err
	}
	now = resp.Header.Revision
	if now < next-1 || last == nil {
		return now, now < next-1, nil
	}
	then, err := store.Get(ctx, string(last.Key), clientv3.WithRev(last.ModRevision))
	switch {
	case exit.EtcdIs(rpctypes.ErrCompacted)(err): // what can still be seen is as it was, or the watch tells
		return now, false, nil
	case errors.Is(err, coord.ErrHistoryRewound):
		return then.Header.Revision, true, nil
	case err != nil:
		return 0, false, err
	}
	same := len(then.Kvs) == 1 && then.Kvs[0].ModRevision == last.ModRevision && bytes.Equal(then.Kvs[0].Value, last.Value)
	return now, !same, nil
}
