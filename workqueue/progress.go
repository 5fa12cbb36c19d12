package workqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// notes is a claim's side of progress/<id>: one write in flight, and the newest
// wish behind it.
type notes struct {
	mu     sync.Mutex
	wish   job.Note
	rev    int64 // the key's mod revision as this claim last saw it
	wished int   // counts wishes
	kept   int   // the wish that was written last
	err    error
	flying bool
	wake   chan struct{}
}

// load takes what earlier attempts left.
func (n *notes) load(kv *mvccpb.KeyValue, j *Job) {
	if kv == nil {
		return
	}
	n.rev = kv.ModRevision
	var left job.Note
	if json.Unmarshal(kv.Value, &left) == nil {
		n.wish = left
		j.Progress, j.Checkpoint = bytes.Clone(left.ProgressBytes()), bytes.Clone(left.CheckpointBytes())
	}
}

// any tells whether there may be a progress key.
func (n *notes) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rev != 0 || n.wished > 0
}

// Progress reports how far the work is, under the claim's fence, for people and
// tools; the token stays. It blocks until this report, or a newer one that replaced
// it, is written, or ctx ends. It returns [coord.ErrFenced] when the claim is no
// longer current: stop working then. At most 64 KiB.
func (c *Claim) Progress(ctx context.Context, b []byte) error {
	return c.keep(ctx, "progress", b, func(n *job.Note) { n.Progress, n.ProgressText, n.Progress64 = job.Split(b) })
}

// Checkpoint keeps b for the next attempt, which finds it in its Job, and for
// [Queue.Get]. It blocks and fails as Progress does. A loss does not count against
// the job when progress or a checkpoint was written since the claim.
func (c *Claim) Checkpoint(ctx context.Context, b []byte) error {
	return c.keep(ctx, "checkpoint", b, func(n *job.Note) { n.Checkpoint, n.CheckpointText, n.Checkpoint64 = job.Split(b) })
}

func (c *Claim) keep(ctx context.Context, field string, b []byte, set func(*job.Note)) error {
	what := "keep " + field + " of job " + c.job.ID
	if err := job.CheckSize(field, len(b), job.MaxProgress); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	n := &c.notes
	n.mu.Lock()
	if n.wake == nil {
		n.wake = make(chan struct{})
	}
	set(&n.wish)
	n.wished++
	mine := n.wished
	if !n.flying {
		n.err = nil
		if n.flying = c.q.core.Behind(c.writeNotes); !n.flying {
			n.mu.Unlock()
			return fmt.Errorf("%s: %w", what, coord.ErrClosed)
		}
	}
	for n.kept < mine && n.err == nil {
		wake := n.wake
		n.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, coord.ErrUnknown, context.Cause(ctx))
		}
		n.mu.Lock()
	}
	err := n.err
	if n.kept >= mine {
		err = nil
	}
	n.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// writeNotes writes the newest wish until there is no newer one.
func (c *Claim) writeNotes(ctx context.Context) {
	n := &c.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.kept < n.wished && n.err == nil {
		wish, wished, seen := n.wish, n.wished, n.rev
		n.mu.Unlock()
		rev, err := c.writeNote(ctx, wish, seen)
		n.mu.Lock()
		if n.err = err; err == nil {
			n.rev, n.kept = rev, wished
		}
		close(n.wake)
		n.wake = make(chan struct{})
	}
	n.flying = false
}

// writeNote writes one wish and returns the key's new revision. Repeating an
// unknown one is safe, because its own success moves the revision that it compares.
func (c *Claim) writeNote(ctx context.Context, wish job.Note, seen int64) (int64, error) {
	wish.Nonce, wish.Token, wish.At = keyspace.NewNonce(), job.Token(c.fence.Token), job.Stamp(time.Now())
	value, err := job.EncodeJSON(wish)
	if err != nil {
		return 0, err
	}
	committer := c.committer()
	adopted, unsure := false, false
	for {
		r, err := committer.Do(ctx, c.q.core.Txns.Progress(fenceOf(c.fence), c.job.ID, string(value), seen))
		switch {
		case err == nil && r.Succeeded:
			return r.Revision, nil
		case err == nil:
			kv := r.Get(1)
			if kv != nil && keyspace.NonceOf(kv.Value) == wish.Nonce {
				return kv.ModRevision, nil
			}
			if err := r.Refusal(fenceOf(c.fence)); !errors.Is(err, coord.ErrRefused) || adopted {
				if unsure {
					err = fmt.Errorf("%w: %w", coord.ErrUnknown, err)
				}
				return 0, err
			}
			// The claim is current, so what is there was left by an earlier job of this
			// id, or was changed by hand.
			adopted, seen = true, 0
			if kv != nil {
				seen = kv.ModRevision
			}
		case ctx.Err() != nil:
			return 0, err
		case errors.Is(err, coord.ErrClosed) && committer != c.q.core.Committer:
			committer = c.q.core.Committer
		case errors.Is(err, coord.ErrUnknown):
			unsure = true
		case unsure: // no error of a repeat says anything about the first try
			return 0, fmt.Errorf("%w: %w", coord.ErrUnknown, err)
		default:
			return 0, err
		}
	}
}
