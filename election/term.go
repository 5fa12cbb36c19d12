package election

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// Term is one uninterrupted leadership. Safe for concurrent use.
type Term struct {
	hold    *coord.Hold
	session *coord.Session

	ctx  context.Context // Run's, ended by Resign too
	end  context.CancelCauseFunc
	over chan struct{} // closed when the claim was given up

	mu  sync.Mutex
	to  string // the successor's session
	err error
}

// Token is the term's fencing token: it rises from term to term.
func (t *Term) Token() coord.Token { return t.hold.Token() }

// Fence proves that the term is current, for anybody's Txn.
func (t *Term) Fence() coord.Fence { return t.hold.Fence() }

// Session is the id of the leader's session.
func (t *Term) Session() string { return t.session.ID() }

// TTL is the granted TTL of the leader's session.
func (t *Term) TTL() time.Duration { return t.session.TTL() }

// Commit applies ops only while the term is current: see [coord.Session.Commit].
// A deposed leader gets [coord.ErrFenced], however late its write arrives.
func (t *Term) Commit(ctx context.Context, ops ...clientv3.Op) (coord.Result, error) {
	return t.hold.Commit(ctx, ops...)
}

func (t *Term) successor(to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to == "" {
		t.to = to
	}
}

// handOver gives the claim to the successor, or to the first in line.
func (t *Term) handOver(ctx context.Context) error {
	t.mu.Lock()
	to := t.to
	t.mu.Unlock()
	var refused error
	if to != "" {
		err := t.hold.Transfer(ctx, to)
		if !errors.Is(err, coord.ErrRefused) {
			return t.keep(err)
		}
		refused = err
	}
	return t.keep(errors.Join(refused, t.hold.Release(ctx)))
}

func (t *Term) keep(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	return err
}

func (t *Term) handedOver() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
