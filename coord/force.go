package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Force says how a claim is taken from its owner, and on whose behalf.
type Force struct {
	// To is the session of a waiter that gets the claim; "" is the first in line, or
	// nobody where nobody waits.
	To string
	// Actor and Reason are kept with the claim: see [ClaimState].
	Actor, Reason string
}

// ForceRelease takes a lock or a leadership from its owner, as long as it is the
// very claim that seen shows, and hands it over. The owner is fenced: it may still be
// running, but no write of it is accepted any more, and it is told. It blocks until
// the outcome is known or ctx ends: nil; [ErrFenced] when the claim has moved on;
// [ErrRefused] when nobody holds it, or To does not wait for it; [ErrUnknown] when
// ctx ended first.
func (s *Store) ForceRelease(ctx context.Context, seen ClaimState, f Force) error {
	if seen.Owner == "" {
		return fmt.Errorf("%w: nobody holds %s", ErrRefused, seen.keys.what)
	}
	// A lane of its own resolves lost answers.
	c := s.NewCommitter("force")
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			s.log.Debug("close lane", zap.Error(err))
		}
	}()
	if err := s.forceWith(ctx, c, seen, f); err != nil {
		return fmt.Errorf("release %s by force: %w", seen.keys.what, err)
	}
	return nil
}

func (s *Store) forceWith(ctx context.Context, c *Committer, seen ClaimState, f Force) error {
	txns := claimTxns{space: s.keys, keys: seen.keys}
	fence := Fence{Key: seen.Key, Token: seen.Token, Nonce: seen.nonce}
	for try := 0; ; try++ {
		v, err := claimReader{s, seen.keys}.read(ctx)
		if err == nil {
			if err := v.current(fence); err != nil {
				return err
			}
			to := entryView{}
			if len(v.entries) > 0 {
				to = v.entries[0]
			}
			if f.To != "" {
				if to, err = v.waiter(f.To, seen.keys.what); err != nil {
					return err
				}
			}
			r, err := c.Do(ctx, txns.force(fence, to, f, time.Now()))
			if err != nil || r.Succeeded {
				return err
			}
		} else if isAuthError(err) || isInvalid(err) {
			return err
		}
		if perr := pause(ctx, try); perr != nil {
			return errors.Join(perr, err)
		}
	}
}

// force hands a claim over on somebody's behalf, or frees it. A freed slot is put,
// not deleted: it says who did it, and a waiter that comes in this moment finds
// it changed.
func (t claimTxns) force(f Fence, to entryView, by Force, now time.Time) Txn {
	rec := holderRecord{Nonce: NewNonce(), By: by.Actor, Reason: by.Reason, Since: now.UTC().Truncate(time.Millisecond)}
	if to.key == "" {
		return Txn{
			Origin: "force", If: f.Cmps(),
			Then: []clientv3.Op{clientv3.OpPut(f.Key, record(rec))},
			Else: []clientv3.Op{clientv3.OpGet(f.Key)},
		}
	}
	txn := t.transfer(f, to, now)
	rec.Nonce, rec.Owner, rec.OwnerRev = to.Claim, to.Session, to.SessionRev
	txn.Origin, txn.Then[0] = "force", clientv3.OpPut(f.Key, record(rec))
	return txn
}
