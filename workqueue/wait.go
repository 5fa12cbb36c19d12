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
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
)

const (
	// waitAgain is when a waiter looks again although its watch is silent: the
	// stream may have died silently.
	waitAgain = 30 * time.Second
	// waitPause is the pause before a waiter asks again an etcd that is in trouble.
	waitPause = 200 * time.Millisecond
)

// Wait blocks until the job that has the ID is done, dead or cancelled, and returns it
// as it was then. It is bound to the job that it meets first: when the ID becomes
// another job's meanwhile, that one's end is not this one's. It
// watches, and looks again now and then in case the watch died silently; it
// outlasts passing trouble of etcd. It returns [ErrNotFound] when there is no such
// job, when it was deleted or moved, or when what is left of it was not kept long
// enough to be read.
// It ends with ctx, and with [coord.ErrClosed] when the queue or its client is closed.
func (q *Queue) Wait(ctx context.Context, id string) (*Job, error) {
	return q.wait(ctx, &waiting{id: id})
}

// WaitFor is Wait for that very job, as Enqueue or Get returned it: not for a later one
// of its ID, whenever that came. A job of another queue is a [coord.InputError].
func (q *Queue) WaitFor(ctx context.Context, job *Job) (*Job, error) {
	switch {
	case job == nil || job.Born == "":
		return nil, fmt.Errorf("wait in %s: %w", q.core.Name(), &coord.InputError{Field: "job", Value: "", Reason: "pass a job as Enqueue or Get returned it"})
	case job.Queue != q.core.Name():
		return nil, fmt.Errorf("wait for job %s: %w", job.ID, &coord.InputError{
			Field: "job", Value: job.ID, Reason: fmt.Sprintf("it is of queue %s, this is a handle on %s", job.Queue, q.core.Name()),
		})
	}
	return q.wait(ctx, &waiting{id: job.ID, born: job.Born, since: job.Revision})
}

// waiting is a wait for one job.
type waiting struct {
	id    string
	born  string // "" until the job is met
	since int64  // the job was there at that revision
	// at is the revision to look at, 0 for now: the one at which the job ended, or one
	// before another job took the ID.
	at int64
	// heir is the job that has the ID now, where it is another.
	heir *Job
}

func (q *Queue) wait(ctx context.Context, w *waiting) (*Job, error) {
	ctx, stop := q.untilClosed(ctx)
	defer stop()
	for {
		j, err := q.waitOnce(ctx, w)
		switch {
		case j != nil:
			return j, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("wait for job %s of %s: %w", w.id, q.core.Name(), err)
		}
	}
}

// waitOnce looks, and waits until it is worth while to look again; without a job and
// without an error the wait goes on.
func (q *Queue) waitOnce(ctx context.Context, w *waiting) (*Job, error) {
	j, seen, err := q.look(ctx, w.id, w.at, false)
	if err == nil && w.born == "" {
		w.born, w.since = j.Born, j.Revision
	}
	switch {
	case err == nil && j.Born != w.born:
		return nil, w.lookBehind(j, seen)
	case err == nil && !j.State.Live():
		return j, nil
	case err == nil && w.heir != nil: // it was replaced before it ended
		return nil, w.superseded()
	case err == nil:
		if w.at, err = q.awaitEnd(ctx, w.id, seen.rev+1); err != nil {
			w.forget()
		}
		return nil, nil
	case w.heir != nil && (queue.IsForgotten(err) || errors.Is(err, ErrNotFound)):
		return nil, w.superseded()
	case queue.IsForgotten(err):
		w.at = 0
		return nil, nil
	case errors.Is(err, coord.ErrHistoryRewound):
		w.forget()
		return nil, nil
	case passing(err):
		rest(ctx, waitPause)
		return nil, nil
	}
	return nil, err
}

// forget begins the wait anew when history went back: its revisions mean nothing any more.
func (w *waiting) forget() { *w = waiting{id: w.id, born: w.born} }

// lookBehind makes the wait look at what was there before another job took the ID: the
// job that made way for it had ended, and etcd's old revisions still show it.
func (w *waiting) lookBehind(j *Job, seen looked) error {
	if w.heir == nil {
		w.heir = j
	}
	if w.at = seen.created - 1; w.at < w.since {
		return w.superseded()
	}
	return nil
}

// superseded is the end of a wait for a job of which only the ID is left.
func (w *waiting) superseded() error {
	return fmt.Errorf("%w any more: the ID is that of a later one now, which is %s; what became of the one that was waited for is not kept, but the trail of the later one goes on from its own", ErrNotFound, w.heir.State)
}

// awaitEnd watches until the job's live key is deleted, and returns the revision of
// that: at it, etcd shows how the job ended. It returns 0 when the watch breaks or it is
// time to look again. The error is that history went back.
func (q *Queue) awaitEnd(ctx context.Context, id string, rev int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, waitAgain/2+rand.N(waitAgain))
	defer cancel()
	ev, err := q.core.Store.FirstChange(ctx, q.core.Keys().Job(id), rev, clientv3.WithFilterPut())
	switch {
	case errors.Is(err, coord.ErrHistoryRewound):
		return 0, err
	case err != nil:
		rest(ctx, waitPause)
		return 0, nil
	}
	return ev.Kv.ModRevision, nil
}

// WaitEmpty blocks until no live job is left in the queue: none ready, scheduled
// or claimed by anybody. It watches, and confirms with a linearizable read.
// In mode dispatch it looks every 10 s instead, since a worker does not watch all
// jobs then. Records that cannot be read are not waited for: see
// admin.Undecodable. It
// outlasts passing trouble of etcd; it ends with ctx, and with [coord.ErrClosed]
// when the queue or its client is closed.
func (q *Queue) WaitEmpty(ctx context.Context) error {
	if err := q.waitEmpty(ctx); err != nil {
		return fmt.Errorf("wait until %s is empty: %w", q.core.Name(), err)
	}
	return nil
}

func (q *Queue) waitEmpty(ctx context.Context) error {
	ctx, stop := q.untilClosed(ctx)
	defer stop()
	if err := q.core.Mirrors.SyncConfig(ctx); err != nil {
		return err
	}
	changed, stopListening := q.core.Index.Listen()
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
	if q.core.Index.Mode() == ModeDispatch {
		if !counted.IsZero() {
			rest(ctx, time.Until(counted.Add(countEvery)))
		}
		*counted = time.Now()
		return context.Cause(ctx)
	}
	release, err := q.core.Mirrors.NeedJobs(ctx)
	if err != nil {
		return err
	}
	defer release()
	for q.core.Index.Mode() == ModeClaim {
		select {
		case <-q.core.Index.Emptied():
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

// confirmEmpty tells whether no live job is left that can be read: at one revision,
// since a job may end with the enqueue of another that is among those read before.
func (q *Queue) confirmEmpty(ctx context.Context) (bool, error) {
	start, end := q.core.Keys().Jobs(), clientv3.GetPrefixRangeEnd(q.core.Keys().Jobs())
	for from, rev := start, int64(0); ; {
		resp, err := q.core.Store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(confirmPage), clientv3.WithRev(rev))
		switch {
		case rev != 0 && queue.IsForgotten(err):
			from, rev = start, 0
			continue
		case err != nil:
			return false, err
		}
		for _, kv := range resp.Kvs {
			if _, err := q.core.Txns.Decode(job.InJobs, kv); err == nil {
				return false, nil
			}
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			return true, nil
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
	}
}

// untilClosed returns a context that also ends when the queue, or its client, is closed.
func (q *Queue) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.core.Life, func() { cancel(coord.ErrClosed) })
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
