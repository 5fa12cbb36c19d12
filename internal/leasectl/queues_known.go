package leasectl

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// knownQueue tells whether there is any key of a queue: a job, live or over, a worker or a config. A queue is its keys, so
// a mistyped name is a queue like any other, with nothing in it. Who may not look is told that it is there: what he may
// do, the verb finds out.
func (a *app) knownQueue(ctx context.Context, c *connection, name string) (bool, error) {
	if err := keyspace.ValidateName("queue", name); err != nil {
		return false, err
	}
	store, err := etcdkv.NewStore(c.Client, c.root, nil)
	if err != nil {
		return false, err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	resp, err := store.Get(ctx, store.Keys().Queue(name).Prefix(), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if exitCode(err) == exitAuth {
		return true, nil
	}
	return err == nil && len(resp.Kvs) > 0, err
}

// needQueue is the error of a verb that makes sense only for a queue that is there.
func (a *app) needQueue(ctx context.Context, c *connection, name string) error {
	known, err := a.knownQueue(ctx, c, name)
	if known || err != nil {
		return err
	}
	return a.noQueue(ctx, c, name)
}

// noQueue is the error of a queue that is not there.
func (a *app) noQueue(ctx context.Context, c *connection, name string) error {
	try := "leasectl queues ls"
	if near := a.nearestQueue(ctx, c, name); near != "" {
		try = escape.Shell(near) + ", or " + try
	}
	return &failure{code: exitNotFound, err: fmt.Errorf("there is no queue %q", name), try: try}
}

// noteNewQueue tells who configures a queue before its first job, or selects jobs of it, that there is none; a typing
// error looks like that.
func (a *app) noteNewQueue(ctx context.Context, c *connection, name string) error {
	known, err := a.knownQueue(ctx, c, name)
	if known || err != nil {
		return err
	}
	meant := ""
	if near := a.nearestQueue(ctx, c, name); near != "" {
		meant = fmt.Sprintf("; there is a queue %s", near)
	}
	a.notef("note: queue %s has no jobs and no workers%s", name, meant)
	return nil
}

// nearestQueue is the queue whose name is at most two edits away, or nothing, also where the names cannot be read.
func (a *app) nearestQueue(ctx context.Context, c *connection, name string) string {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	names, err := a.queues(ctx, c)
	if err != nil {
		return ""
	}
	return nearest(name, names)
}

func (a *app) queues(ctx context.Context, c *connection) ([]string, error) {
	names, err := c.queues().Names(ctx)
	if code := exitCode(err); code == exitAuth {
		return nil, &failure{err: err, try: "name the QUEUE that you may read, where the command takes one, or grant the user read on " + c.root}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !a.usable("queue", name) }), err
}
