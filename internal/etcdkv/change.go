package etcdkv

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/fault"
)

// NextChange is the first change of a key behind revision rev, nil when there was none yet.
func (s *Store) NextChange(ctx context.Context, key string, rev int64) (*clientv3.Event, error) {
	resp, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 1 && resp.Kvs[0].ModRevision <= rev {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	ev, err := s.FirstChange(ctx, key, rev+1)
	if err != nil {
		return nil, fmt.Errorf("read what followed %s at revision %d: %w", key, rev, err)
	}
	return ev, nil
}

// FirstChange blocks until the key's first change from revision rev on, and returns it;
// one that has happened is found too, unless its revision is compacted, and also behind a
// lost connection, where [fault.ErrHistoryRewound] tells that rev is of another history. Opts
// filter. It ends with ctx, with its cause, although the client's channel may not.
func (s *Store) FirstChange(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	for try := 0; ; try++ {
		ev, err := s.watchFirst(ctx, key, rev, opts...)
		if !errors.Is(err, errInterrupted) {
			return ev, err
		}
		if _, err := s.Get(ctx, key, clientv3.WithKeysOnly()); err != nil && !Passing(err) {
			return nil, err
		}
		if err := Pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// errInterrupted is the end of a watch whose connection was lost.
var errInterrupted = errors.New("the watch ended")

func (s *Store) watchFirst(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := s.Watch(ctx, key, rev, opts...)
	for {
		select {
		case resp, ok := <-watch:
			switch {
			case !ok && ctx.Err() == nil:
				return nil, errInterrupted
			case !ok:
				return nil, fault.CauseOf(ctx)
			case resp.Err() != nil:
				return nil, resp.Err()
			case len(resp.Events) > 0:
				return resp.Events[0], nil
			}
		case <-ctx.Done():
			return nil, fault.CauseOf(ctx)
		}
	}
}
