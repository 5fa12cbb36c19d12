package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
)

// registration is a worker's entry under workers/, on its session's lease: it tells the
// peers which kinds the session works, and dispatchers how many jobs it can hold. It
// stands in the session's book like a claim, so it is left however long that takes. Each
// write of it is guarded by the one before, so a late one never brings it back. Safe for
// concurrent use; one write at a time.
type registration struct {
	q     *Queue
	s     *coord.Session
	key   string
	kinds []string
	left  chan struct{} // closed once nothing more is assigned, and what was is given back

	writing sync.Mutex // held over a write
	nonces  []string   // of our writes whose outcome was not read
	rev     int64      // the key's mod revision as we last saw it, 0: absent

	told
}

// told is what etcd was told of how many jobs a session can hold.
type told struct {
	mu      sync.Mutex
	jobs    int       // how many etcd knows of; -1: unsure
	at      int64     // the revision of the write that told it
	telling bool      // a write is under way
	leaving bool      // nothing is told any more
	again   time.Time // not before it, since the last one failed
}

// register enters a worker into the session's book, and into etcd. It refuses a second
// worker of one session and queue: the two would take each other's jobs away.
func (w *Worker) register(ctx context.Context, s *coord.Session) (*registration, error) {
	r := &registration{q: w.q, s: s, key: w.q.core.Keys().Worker(s.ID()), kinds: w.kinds, left: make(chan struct{}), told: told{jobs: -1}}
	for try := 0; ; try++ {
		err := inside.Of(s).Track(r.key, r.leave)
		switch {
		case err == nil:
			_ = inside.Of(s).Keep(r.key, r.leave) // a session that has just ended takes it along
			return r, r.tell(ctx, w.slots.capacity())
		case !errors.Is(err, claims.ErrTaken):
			return nil, err
		case !inside.Of(s).Book().Stray(r.key):
			return nil, &coord.InputError{Field: "session", Value: s.ID(), Reason: "a worker serves queue " + w.q.core.Name() + " on it already; run one worker per queue and session, with more concurrency"}
		}
		rest(ctx, min(10*time.Millisecond<<min(try, 7), time.Second)) // an earlier worker is leaving yet
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tell writes how many jobs the session can hold.
func (r *registration) tell(ctx context.Context, capacity int) error {
	at, err := r.put(ctx, job.WorkerRecord{Kinds: r.kinds, Concurrency: capacity})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs, r.at = capacity, at
	if err != nil {
		r.jobs, r.again = -1, time.Now().Add(time.Second)
	}
	return err
}

// put writes the entry in place of the one that was there. The session's compare keeps
// a lost one from lingering; that of the entry keeps a late write from coming back. It
// returns the revision at which it was written.
func (r *registration) put(ctx context.Context, rec job.WorkerRecord) (at int64, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	for range queue.MaxTries {
		rec.Nonce = keyspace.NewNonce()
		value, err := job.EncodeJSON(rec)
		if err != nil {
			return 0, err
		}
		r.nonces = append(r.nonces, rec.Nonce)
		got, err := inside.Of(r.s).Committer().Do(ctx, r.q.core.Txns.Register(job.Owner{ID: r.s.ID(), Rev: inside.Of(r.s).CreateRevision()}, r.s.Lease(), r.rev, string(value)))
		switch {
		case err != nil:
			if !errors.Is(err, coord.ErrUnknown) { // it was certainly not written
				r.nonces = r.nonces[:len(r.nonces)-1]
			}
			return 0, err
		case got.Succeeded:
			r.rev, r.nonces = got.Revision, nil
			return r.rev, nil
		}
		kv := got.Get(0)
		switch {
		case got.Get(1) == nil:
			return 0, fmt.Errorf("%w: its key is gone", coord.ErrSessionLost)
		case r.rev == 0 && !r.mayFollow(kv):
			return 0, &coord.InputError{Field: "session", Value: r.s.ID(), Reason: "another process serves queue " + r.q.core.Name() + " on it; run one worker per queue and session"}
		}
		r.rev = 0 // where it was deleted, it is put anew
		if kv != nil {
			r.rev = kv.ModRevision
		}
	}
	return 0, queue.Conflict("register worker", queue.ErrChanging)
}

// written tells whether an entry of ours is there, or may be.
func (r *registration) written() bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.rev != 0 || len(r.nonces) > 0
}

// mayFollow tells whether a first write may take the place of what is there: an entry
// that was left, or one of ours whose answer was lost.
func (r *registration) mayFollow(kv *mvccpb.KeyValue) bool {
	if kv == nil {
		return true
	}
	for _, nonce := range r.nonces {
		if keyspace.NonceOf(kv.Value) == nonce {
			return true
		}
	}
	return job.DecodeWorker(kv.Value).Left
}

// isTold tells whether etcd has the entry as it was written last, saying that the session
// can hold that many jobs; any number is as good where capacity is negative. Seen is when
// the entry changed, or since when it is gone, as a mirror shows it: what came behind our
// write is somebody else's doing.
func (r *registration) isTold(capacity int, seen int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.telling && r.jobs >= 0 && (r.jobs == capacity || capacity < 0) && /*mutant:register-again*/ seen <= r.at
}

// keepRegistered registers the session again, behind the caller, when its registration is
// not told. What it returns, where it is not zero, is when to look again.
func (w *Worker) keepRegistered(r *registration, told bool) (wake time.Time) {
	if told {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.telling || /*mutant:register-left*/ r.leaving || r.s.Err() != nil:
		return time.Time{} // a write wakes the loop when it is over
	case time.Now().Before(r.again):
		return r.again
	}
	r.telling = true
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.hard, leaveTimeout)
		defer cancel()
		err := r.tell(ctx, w.slots.capacity())
		if err != nil && !isSessionOver(err) && r.s.Err() == nil && w.hard.Err() == nil {
			w.log.Warn("register worker", zap.Error(err))
		}
		r.mu.Lock()
		r.telling = false
		r.mu.Unlock()
		w.slots.nudge()
	})
	return time.Time{}
}

// unregister has the session's book leave the queue, and waits for that a moment.
func (w *Worker) unregister(r *registration) {
	if r == nil {
		return
	}
	inside.Of(r.s).Book().Settle(r.key)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	select {
	case <-r.left:
	case <-r.s.Done():
	case <-ctx.Done():
		w.log.Info("the worker leaves its queue behind its end")
	}
}

// leave ends a session's service of the queue: nothing more is assigned to it, and what
// no handler works goes to others. The entry stays as a tombstone until the session
// ends: behind it no assignment is applied that was made on older knowledge. After an
// error it is called again.
func (r *registration) leave(ctx context.Context) error {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	switch {
	case r.s.Err() != nil:
		return nil // its lease takes the entry along, and what was assigned is an orphan
	case !r.written(): //mutant:leave-unwritten
		close(r.left)
		return nil
	}
	_, err := r.put(ctx, job.WorkerRecord{Kinds: r.kinds, Left: true})
	switch {
	case isSessionOver(err):
		return nil
	case errors.Is(err, coord.ErrInvalid): // the entry is another process's: so is all that is assigned
		close(r.left)
		return nil
	case err != nil:
		return fmt.Errorf("leave queue %s: %w", r.q.core.Name(), err)
	}
	resp, err := r.q.core.Store.List(ctx, r.q.core.Keys().Inbox(r.s.ID()))
	if err != nil {
		return fmt.Errorf("leave queue %s: %w", r.q.core.Name(), err)
	}
	for _, kv := range resp.Kvs {
		r.q.returnAssigned(r.s, kv, unbegun("the worker stops"))
	}
	close(r.left)
	return nil
}
