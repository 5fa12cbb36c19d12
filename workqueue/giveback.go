package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// giveBack gives up the claim of a nonce that this process, or a dispatcher for it, made
// for the session and that no handler works: e says why and until when. It reads the
// job first, so it can be called again after any error. That the claim is another's by
// now, or was never made, is as good.
func (q *Queue) giveBack(ctx context.Context, s *coord.Session, id, nonce string, e job.Event) error {
	resp, err := q.core.Store.Get(ctx, q.core.Keys().Job(id))
	if err != nil {
		return fmt.Errorf("give back job %s: %w", id, err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	r, err := claimIn(resp.Kvs[0], nonce)
	switch {
	case err != nil:
		return fmt.Errorf("give back job %s: %w", id, err)
	case r == nil:
		return nil
	}
	err = q.release(ctx, s, job.Snapshot{Record: r, Where: job.InJobs, Rev: resp.Kvs[0].ModRevision}, e)
	if err != nil && !errors.Is(err, coord.ErrFenced) {
		return fmt.Errorf("give back job %s: %w", id, err)
	}
	return nil
}

// claimIn is the claim of a nonce, nil where the job's key holds none: a reclaim may
// have put the job back under it.
func claimIn(kv *mvccpb.KeyValue, nonce string) (*job.Record, error) {
	if keyspace.NonceOf(kv.Value) != nonce {
		return nil, nil
	}
	r, err := job.Decode(kv.Value)
	if err != nil || !r.Claimed() {
		return nil, err
	}
	return r, nil
}

// release gives back a claim of the session as it was read.
func (q *Queue) release(ctx context.Context, s *coord.Session, l job.Snapshot, e job.Event) error {
	fence := etcdkv.Fence{Key: q.core.Keys().Job(l.Record.ID), Token: l.Rev, Nonce: l.Record.Nonce}
	e.Verb, e.Now, e.Nonce, e.Token, e.Delay = job.VerbRelease, time.Now(), keyspace.NewNonce(), job.Token(l.Rev), q.core.Delay()
	n, err := job.Transition(l.Record, l.Where, e)
	if err != nil {
		return err
	}
	txn, err := q.core.Txns.Close(fence, l, n, 0)
	if err != nil {
		return err
	}
	r, err := inside.Of(s).Committer().Do(ctx, txn)
	if errors.Is(err, coord.ErrClosed) { // the session is, but its claim may be current
		r, err = q.core.Committer.Do(ctx, txn)
	}
	switch {
	case err != nil:
		return err
	case !r.Succeeded:
		return r.Refusal(fence)
	}
	return nil
}

// unbegun is a release of a job that no handler has begun.
func unbegun(why string) job.Event { return job.Event{Err: why, Unbegun: true} }
