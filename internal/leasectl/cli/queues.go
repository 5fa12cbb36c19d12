package cli

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// knownQueue tells whether there is any key of a queue: a job, live or over, a worker or a config. A queue is its keys, so
// a mistyped name is a queue like any other, with nothing in it. Who may not look is told that it is there: what he may
// do, the verb finds out.
func (a *App) knownQueue(ctx context.Context, c *connect.Conn, name string) (bool, error) {
	if err := keyspace.ValidateName("queue", name); err != nil {
		return false, err
	}
	store := c.Store()
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	resp, err := store.Get(ctx, store.Keys().Queue(name).Prefix(), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if exit.Code(err) == exit.Auth {
		return true, nil
	}
	return err == nil && len(resp.Kvs) > 0, err
}

// NeedQueue is the error of a verb that makes sense only for a queue that is there.
func (a *App) NeedQueue(ctx context.Context, c *connect.Conn, name string) error {
	known, err := a.knownQueue(ctx, c, name)
	if known || err != nil {
		return err
	}
	return a.NoQueue(ctx, c, name)
}

// NoQueue is the error of a queue that is not there.
func (a *App) NoQueue(ctx context.Context, c *connect.Conn, name string) error {
	try := "leasectl queues ls"
	if near := a.nearestQueue(ctx, c, name); near != "" {
		try = escape.Shell(near) + ", or " + try
	}
	return &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("there is no queue %q", name), Try: try}
}

// NoteNewQueue tells who configures a queue before its first job, or selects jobs of it, that there is none; a typing
// error looks like that.
func (a *App) NoteNewQueue(ctx context.Context, c *connect.Conn, name string) error {
	known, err := a.knownQueue(ctx, c, name)
	if known || err != nil {
		return err
	}
	meant := ""
	if near := a.nearestQueue(ctx, c, name); near != "" {
		meant = fmt.Sprintf("; there is a queue %s", near)
	}
	a.Notef("note: queue %s has no jobs and no workers%s", name, meant)
	return nil
}

// nearestQueue is the queue whose name is at most two edits away, or nothing, also where the names cannot be read.
func (a *App) nearestQueue(ctx context.Context, c *connect.Conn, name string) string {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	names, err := a.QueueNames(ctx, c)
	if err != nil {
		return ""
	}
	return nearest(name, names)
}

// QueueNames are the names of all queues that verbs take.
func (a *App) QueueNames(ctx context.Context, c *connect.Conn) ([]string, error) {
	names, err := c.Queues().Names(ctx)
	if code := exit.Code(err); code == exit.Auth {
		return nil, &exit.Error{Err: err, Try: "name the QUEUE that you may read, where the command takes one, or grant the user read on " + c.Root}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !a.Usable("queue", name) }), err
}
