package workqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
)

const (
	// waitAgain is when a waiter looks again although its watch is silent: the
	// stream may have died silently.
	waitAgain = 30 * time.Second
	// waitPause is the pause before a waiter asks again an etcd that is in trouble.
	waitPause = 200 * time.Millisecond
)

// Wait blocks until the job is done, dead or cancelled, and returns it. It
// watches, and looks again now and then in case the watch died silently; it
// outlasts passing trouble of etcd. It returns [ErrNotFound] when there is no such
// job, or no longer: a job that was not kept long enough leaves nothing to return.
// It ends with ctx, and with [coord.ErrClosed] when the queue or its client is closed.
func (q *Queue) Wait(ctx context.Context, id string) (*Job, error) {
	j, err := q.wait(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("wait for job %s of %s: %w", id, q.name, err)
	}
	return j, nil
}

func (q *Queue) wait(ctx context.Context, id string) (*Job, error) {
	ctx, stop := q.untilClosed(ctx)
	defer stop()
	for {
		j, rev, err := q.look(ctx, id)
		switch {
		case err == nil && !j.State.Live():
			return j, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			q.awaitEnd(ctx, id, rev+1)
		case passing(err):
			rest(ctx, waitPause)
		default:
			return nil, err
		}
	}
}

// awaitEnd watches until the job's live key is deleted, the watch breaks, or it is
// time to look again.
func (q *Queue) awaitEnd(ctx context.Context, id string, rev int64) {
	ctx, cancel := context.WithTimeout(ctx, waitAgain/2+rand.N(waitAgain))
	defer cancel()
	for resp := range q.store.Watch(ctx, q.keys.Job(id), rev, clientv3.WithFilterPut()) {
		switch {
		case resp.Err() != nil:
			rest(ctx, waitPause)
			return
		case len(resp.Events) > 0:
			return
		}
	}
}

// WaitEmpty blocks until no live job is left in the queue: none ready, scheduled
// or claimed by anybody. It watches, and confirms with a linearizable read.
// In mode dispatch it looks every 10 s instead, since a worker does not watch all
// jobs then. Records that cannot be read are not waited for: see
// [Queue.Undecodable]. It
// outlasts passing trouble of etcd; it ends with ctx, and with [coord.ErrClosed]
// when the queue or its client is closed.
func (q *Queue) WaitEmpty(ctx context.Context) error {
	if err := q.waitEmpty(ctx); err != nil {
		return fmt.Errorf("wait until %s is empty: %w", q.name, err)
	}
	return nil
}

func (q *Queue) waitEmpty(ctx context.Context) error {
	ctx, stop := q.untilClosed(ctx)
	defer stop()
	if err := q.syncConfig(ctx); err != nil {
		return err
	}
	changed, stopListening := q.index.listen()
	defer stopListening()
	var counted time.Time
	for {
		if err := q.suspectEmpty(ctx, changed, &counted); err != nil {
			return err
		}
		empty, err := q.confirmEmpty(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case empty:
			return nil
		case err != nil && !passing(err):
			return err
		}
		select { // the mirror lags
		case <-changed:
		case <-time.After(waitPause):
		case <-ctx.Done():
		}
	}
}

// countEvery is how often live jobs are looked for in mode dispatch.
const countEvery = 10 * time.Second

// suspectEmpty returns when the queue may be empty: the mirror shows no job, or,
// in mode dispatch, it is time to look.
func (q *Queue) suspectEmpty(ctx context.Context, changed <-chan struct{}, counted *time.Time) error {
	if q.index.mode() == ModeDispatch {
		if !counted.IsZero() {
			rest(ctx, time.Until(counted.Add(countEvery)))
		}
		*counted = time.Now()
		return context.Cause(ctx)
	}
	release, err := q.needJobs(ctx)
	if err != nil {
		return err
	}
	defer release()
	for q.index.mode() == ModeClaim {
		select {
		case <-q.index.emptied():
			return nil
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// confirmPage is how many live jobs are read at a time to find one that can be read.
const confirmPage = 32

// confirmEmpty tells whether no live job is left that can be read.
func (q *Queue) confirmEmpty(ctx context.Context) (bool, error) {
	from, end := q.keys.Jobs(), clientv3.GetPrefixRangeEnd(q.keys.Jobs())
	for {
		resp, err := q.store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(confirmPage))
		if err != nil {
			return false, err
		}
		for _, kv := range resp.Kvs {
			if _, err := q.txns.decode(inJobs, kv); err == nil {
				return false, nil
			}
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			return true, nil
		}
	}
}

// untilClosed returns a context that also ends when the queue, or its client, is closed.
func (q *Queue) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.life, func() { cancel(coord.ErrClosed) })
	stopClient := context.AfterFunc(q.client.Ctx(), func() { cancel(fmt.Errorf("the etcd client is %w", coord.ErrClosed)) })
	return ctx, func() {
		stop()
		stopClient()
		cancel(nil)
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// passing tells whether a read failed for a reason that goes away by itself: no
// connection, no leader, no answer in time, or a history that has just gone back.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coord.ErrHistoryRewound) {
		return true
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	}
	return false
}

// codeOf is the gRPC code of an error of etcd, however it is wrapped.
func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}
