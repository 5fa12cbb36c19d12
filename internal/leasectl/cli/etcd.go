package cli

import (
	"context"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/workqueue"
)

// WithQueue connects, opens a queue, calls f, and closes both again.
func (a *App) WithQueue(ctx context.Context, name string, f func(*connect.Conn, *workqueue.Queue) error) error {
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		return a.OnQueue(ctx, c, name, func(q *workqueue.Queue) error { return f(c, q) })
	})
}

// OnQueue opens a queue on a connection that there is, calls f, and closes the queue again.
func (a *App) OnQueue(ctx context.Context, c *connect.Conn, name string, f func(*workqueue.Queue) error) error {
	q, err := a.OpenQueue(ctx, c, name, nil)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // every outcome is known by now; what is left ends with its lease
	return f(q)
}

// WithEtcd connects, calls f, and closes the connection again.
func (a *App) WithEtcd(ctx context.Context, f func(*connect.Conn) error) error {
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := f(c); err != nil {
		return a.Denied(ctx, c, err)
	}
	return nil
}

// OpenQueue opens a queue, which the caller must Close. A nil logger logs nothing.
func (a *App) OpenQueue(ctx context.Context, c *connect.Conn, name string, log *zap.Logger) (*workqueue.Queue, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	return workqueue.Open(ctx, c.Client, workqueue.Config{Queue: name, Root: c.Root, Identity: a.Settings.Identity, MaxPayload: MaxPayload, Logger: log})
}

// Bounded limits one call to etcd: a library waits as long as its context, a person does not.
func (a *App) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Settings.DialTimeout)
}

// MaxPayload is the largest payload that leasectl puts into a queue; the library's default.
const MaxPayload = 256 << 10

// Connect returns a client that has proven itself by one linearizable read. It returns, with an answer or with the
// reason of each endpoint, within the dial timeout. The caller must Close the client, which outlives ctx: cleaning up
// after an interrupt needs it.
func (a *App) Connect(ctx context.Context) (*connect.Conn, error) {
	t, err := a.Settings.Target(ctx, a.Getenv)
	if err != nil {
		return nil, err
	}
	return connect.Open(ctx, t)
}
