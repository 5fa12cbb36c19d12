package workqueue

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
)

// told is what a worker has told etcd of itself.
type told struct {
	sid      string
	capacity int
	telling  bool      // a registration is under way
	again    time.Time // not before it, since the last one failed
}

// register tells the peers which kinds this session works, and dispatchers how
// many jobs it can hold, on its lease. It needs no guard but the session's, without
// which a lost one would linger.
func (w *Worker) register(ctx context.Context, s *coord.Session) error {
	capacity := w.capacity()
	value, err := encodeJSON(workerRecord{Nonce: coord.NewNonce(), Kinds: w.kinds, Concurrency: capacity})
	if err != nil {
		return err
	}
	_, err = s.Committer().Do(ctx, coord.Txn{
		Origin: "worker",
		If:     []clientv3.Cmp{s.Guard()},
		Then:   []clientv3.Op{clientv3.OpPut(w.q.keys.Worker(s.ID()), string(value), clientv3.WithLease(s.Lease()))},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = told{sid: s.ID(), capacity: capacity}
	if err != nil {
		w.told = told{again: time.Now().Add(time.Second)}
	}
	return err
}

// isTold tells whether etcd knows that the session can hold that many jobs.
func (w *Worker) isTold(s *coord.Session, capacity int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told.sid == s.ID() && w.told.capacity == capacity && !w.told.telling
}

// keepRegistered registers the session again, behind the caller, when its
// registration is gone or says too much or too little. What it returns, where it is
// not zero, is when to look again.
func (w *Worker) keepRegistered(s *coord.Session, box *inbox) (wake time.Time) {
	if w.isTold(s, w.capacity()) && !box.isUnlisted() || s.Err() != nil {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.told.telling:
		return time.Time{} // it wakes the loop when it is over
	case time.Now().Before(w.told.again):
		return w.told.again
	}
	w.told.telling = true
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.hard, leaveTimeout)
		defer cancel()
		err := w.register(ctx, s)
		if err == nil {
			box.note(false) // the mirror says so when it is not
		} else if !isSessionOver(err) && s.Err() == nil && w.hard.Err() == nil {
			w.log.Warn("register worker", zap.Error(err))
		}
		w.nudge()
	})
	return time.Time{}
}

// withdraw takes the registration away: when that is applied, no assignment to the
// session is applied any more.
func (w *Worker) withdraw(s *coord.Session) *coord.Pending {
	return s.Committer().Go(coord.Txn{
		Origin: "worker",
		If:     []clientv3.Cmp{s.Guard()},
		Then:   []clientv3.Op{clientv3.OpDelete(w.q.keys.Worker(s.ID()))},
	})
}

// unregister tells the peers that a session which may go on does not serve this
// queue any more, so that they do not leave its share to it. It does not wait:
// peers would only be a little slower.
func (w *Worker) unregister(s *coord.Session) {
	if s != nil && s.Err() == nil {
		w.withdraw(s)
	}
}
