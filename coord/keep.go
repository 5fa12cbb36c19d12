package coord

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
)

// Track enters a claim in the session's book before it is made. The error is
// [Session.Err] when the session is over: then nothing may be claimed; it matches
// claims.ErrTaken when the nonce is in the book already. It is for the packages of
// Leasekit.
func (s *Session) Track(nonce string, end claims.End) error {
	if err := s.Err(); err != nil { //mutant:claim-after-loss
		return err
	}
	err := s.book.Track(nonce, end)
	if errors.Is(err, claims.ErrOver) {
		err = fmt.Errorf("session %w", ErrClosed)
	}
	return err
}

// Keep says that a claim was made; end is how to give it up from now on. The error is
// [Session.Err] when the session is over: then no work may start on it, and it must be
// given up. It is for the packages of Leasekit.
func (s *Session) Keep(nonce string, end claims.End) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.book.Hold(nonce, end) != nil {
		return fmt.Errorf("session %w", ErrClosed)
	}
	return nil
}

// Attempt sends one closing Txn and judges the answer, for the packages of Leasekit. The caller judges a refusal by its
// Result: until then it is Again, as when a compare did not hold that is no fence.
func (c *Committer) Attempt(ctx context.Context, t Txn) (Result, claims.Outcome) {
	if ctx.Err() != nil {
		return Result{}, claims.Outcome{Verdict: claims.Again, Err: fmt.Errorf("%w: %w", errNotSent, causeOf(ctx))}
	}
	p := c.Go(t)
	r, err := p.Wait(ctx)
	switch {
	case err == nil && r.Succeeded:
		return r, claims.Outcome{Verdict: claims.Applied}
	case err == nil:
		return r, claims.Outcome{Verdict: claims.Again}
	case errors.Is(err, ErrUnknown):
		o := claims.Outcome{Verdict: claims.Unsure, Err: err}
		select {
		case <-p.Done():
			o.Loose = p.isLate
			if o.Fixed = p.Fixed(); o.Fixed == neverFixed {
				o.Fixed = nil
			}
		default: // ctx ended, and with it the closing
		}
		return r, o
	}
	return r, claims.Outcome{Verdict: claims.Refused, Err: err}
}

// next is the first change of a key behind revision rev, nil when there was none yet.
func (s *Store) next(ctx context.Context, key string, rev int64) (*clientv3.Event, error) {
	resp, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 1 && resp.Kvs[0].ModRevision <= rev {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ev, err := s.FirstChange(ctx, key, rev+1)
	if err != nil {
		return nil, fmt.Errorf("read what followed %s at revision %d: %w", key, rev, err)
	}
	return ev, nil
}

// FirstChange blocks until the key's first change from revision rev on, and returns it;
// one that has happened is found too, unless its revision is compacted, and also behind a
// lost connection, where [ErrHistoryRewound] tells that rev is of another history. Opts
// filter. It ends with ctx, with its cause, although the client's channel may not.
func (s *Store) FirstChange(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	for try := 0; ; try++ {
		ev, err := s.watchFirst(ctx, key, rev, opts...)
		if !errors.Is(err, errInterrupted) {
			return ev, err
		}
		if _, err := s.Get(ctx, key, clientv3.WithKeysOnly()); err != nil && !passing(err) {
			return nil, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// errInterrupted is the end of a watch whose connection was lost.
var errInterrupted = errors.New("the watch ended")

func (s *Store) watchFirst(ctx context.Context, key string, rev int64, opts ...clientv3.OpOption) (*clientv3.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := s.Watch(ctx, key, rev, opts...)
	for {
		select {
		case resp, ok := <-watch:
			switch {
			case !ok && ctx.Err() == nil:
				return nil, errInterrupted
			case !ok:
				return nil, causeOf(ctx)
			case resp.Err() != nil:
				return nil, resp.Err()
			case len(resp.Events) > 0:
				return resp.Events[0], nil
			}
		case <-ctx.Done():
			return nil, causeOf(ctx)
		}
	}
}
