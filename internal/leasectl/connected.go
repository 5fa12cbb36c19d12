package leasectl

import (
	"context"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/workqueue"
)

// withStore connects, calls f with the store of the root, and closes the connection again.
func (a *app) withStore(ctx context.Context, f func(*connection, *etcdkv.Store) error) error {
	return a.withEtcd(ctx, func(c *connection) error {
		store, err := etcdkv.NewStore(c.Client, c.root, nil)
		if err != nil {
			return err
		}
		return f(c, store)
	})
}

// withQueue connects, opens a queue, calls f, and closes both again.
func (a *app) withQueue(ctx context.Context, name string, f func(*connection, *workqueue.Queue) error) error {
	return a.withEtcd(ctx, func(c *connection) error {
		return a.onQueue(ctx, c, name, func(q *workqueue.Queue) error { return f(c, q) })
	})
}

// onQueue opens a queue on a connection that there is, calls f, and closes the queue again.
func (a *app) onQueue(ctx context.Context, c *connection, name string, f func(*workqueue.Queue) error) error {
	q, err := a.openQueue(ctx, c, name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // every outcome is known by now; what is left ends with its lease
	return f(q)
}

// withEtcd connects, calls f, and closes the connection again.
func (a *app) withEtcd(ctx context.Context, f func(*connection) error) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := f(c); err != nil {
		return a.denied(ctx, c, err)
	}
	return nil
}

// openQueue opens a queue, which the caller must Close. A nil logger logs nothing.
func (a *app) openQueue(ctx context.Context, c *connection, name string, log *zap.Logger) (*workqueue.Queue, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return workqueue.Open(ctx, c.Client, workqueue.Config{Queue: name, Root: c.root, Identity: a.settings.identity, MaxPayload: maxPayload, Logger: log})
}

// bounded limits one call to etcd: a library waits as long as its context, a person does not.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.settings.dialTimeout)
}

// maxPayload is the largest payload that leasectl puts into a queue; the library's default.
const maxPayload = 256 << 10

// connect returns a client that has proven itself by one linearizable read. It returns, with an answer or with the
// reason of each endpoint, within the dial timeout. The caller must Close the client, which outlives ctx: cleaning up
// after an interrupt needs it.
func (a *app) connect(ctx context.Context) (*connection, error) {
	t, err := a.settings.target(ctx, a.getenv)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, t)
}
