package coord

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/line"
)

// ResumeClaim goes on with a claim that the session acquired, perhaps in another process
// that left it: see [Session.Leave]. The token is that of its [Hold]; an empty nonce
// leaves the case open that etcd was restored from a backup, where a revision can
// come twice. It makes one linearizable read and returns [ErrFenced] when the claim
// is not current, or not this session's. Take a claim up in one place at a time.
func (l *Lock) ResumeClaim(ctx context.Context, token Token, nonce string) (*Hold, error) {
	if l.err != nil {
		return nil, fmt.Errorf("take up: %w", l.err)
	}
	h, err := l.c.takeUp(ctx, token, nonce)
	if err != nil {
		return nil, fmt.Errorf("take up %s: %w", l.c.Keys.What, err)
	}
	return h, nil
}

// ResumeClaim goes on with a permit: see [Lock.ResumeClaim].
func (s *Semaphore) ResumeClaim(ctx context.Context, token Token, nonce string) (*Hold, error) {
	return s.l.ResumeClaim(ctx, token, nonce)
}

func (c *claimable) takeUp(ctx context.Context, token Token, nonce string) (*Hold, error) {
	v, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	fenced := error(&FencedError{Key: v.Slots[0].Key, Wanted: token, Current: Token(v.Slots[0].Rev)})
	for _, s := range v.Slots {
		switch {
		case Token(s.Rev) != token || s.Owner == "":
		case s.Owner != c.s.id:
			fenced = fmt.Errorf("%w: token %s is of session %s, not of %s", ErrFenced, token, s.Owner, c.s.id)
		case nonce != "" && nonce != s.Nonce:
			fenced = fmt.Errorf("%w: token %s has another nonce than %q", ErrFenced, token, nonce)
		default:
			return c.retake(s)
		}
	}
	return nil, fenced
}

// retake makes a claim ours to use that is ours already.
func (c *claimable) retake(s line.Slot) (*Hold, error) {
	a := &acquisition{claimable: c, me: line.Claimant{Session: c.s.id, Rev: c.s.createRev, Nonce: s.Nonce}}
	return a.hold(s.Key, s.Rev)
}
