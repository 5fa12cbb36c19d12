package workqueue

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
)

// reconcileEvery is how often a worker looks for claims of its own session that
// nobody in the process knows.
const reconcileEvery = 3 * time.Second

// reconcile releases the strays of a session: claims that were applied although
// their answer was lost beyond finding out. Without it a job would stay claimed by
// a live session that does not run it. Assigned are the claims in the session's
// inbox: those too are strays once nobody works them and their closing write failed.
func (q *Queue) reconcile(s *coord.Session, assigned []located) {
	owned := map[string]located{}
	var nonces []string
	for _, l := range append(q.index.ownedBy(s.ID()), assigned...) {
		if _, twice := owned[l.record.Nonce]; !twice {
			nonces = append(nonces, l.record.Nonce)
		}
		owned[l.record.Nonce] = l
	}
	for _, nonce := range s.Strays(q.keys.Jobs(), nonces, time.Now()) {
		l := owned[nonce]
		// While the release is under way it is no stray, or it would pile up.
		if s.Adopt(nonce, nil) != nil {
			return // the session is over: an orphan needs no release
		}
		q.log.Debug("release a stray claim", zap.String("job", l.record.ID))
		started := q.behind(func(ctx context.Context) {
			defer s.Forget(nonce)
			if err := q.releaseStray(ctx, s, l, event{err: "the answer to the claim, or to its end, was lost"}); err != nil && !errors.Is(err, coord.ErrFenced) {
				q.log.Warn("release stray claim", zap.String("job", l.record.ID), zap.Error(err))
			}
		})
		if !started {
			s.Forget(nonce)
		}
	}
}

// releaseStray gives back a claim of the session that nobody in the process works;
// e says why and until when.
func (q *Queue) releaseStray(ctx context.Context, s *coord.Session, l located, e event) error {
	token := coord.Token(l.rev)
	fence := coord.Fence{Key: q.keys.Job(l.record.ID), Token: token, Nonce: l.record.Nonce}
	e.verb, e.now, e.nonce, e.token, e.delay = verbRelease, time.Now(), coord.NewNonce(), token, q.delay()
	n, err := transition(l.record, l.where, e)
	if err != nil {
		return err
	}
	txn, err := q.txns.close(fence, l, n, 0)
	if err != nil {
		return err
	}
	r, err := s.Committer().Do(ctx, txn)
	if err != nil {
		return err
	}
	if !r.Succeeded {
		return r.Refusal(fence)
	}
	return nil
}
