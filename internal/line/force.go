package line

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// ForceRelease takes a lock or a leadership from its owner, as long as it is the
// very claim that seen shows, and hands it to the waiter with session to, or, where
// to is "", to the first in line, or to nobody where nobody waits. Actor and reason
// are kept with the claim: see [State]. The owner is fenced: it may still be
// running, but no write of it is accepted any more, and it is told. It blocks until
// the outcome is known or ctx ends: nil; [fault.ErrFenced] when the claim has moved on;
// [fault.ErrRefused] when nobody holds it, or to does not wait for it; [fault.ErrUnknown] when
// ctx ended first.
func ForceRelease(ctx context.Context, s *etcdkv.Store, seen State, to, actor, reason string) error {
	if seen.Owner == "" {
		return fmt.Errorf("%w: nobody holds %s", fault.ErrRefused, seen.keys.What)
	}
	c, done := lane.OwnLane(ctx, s, "force")
	defer done()
	if err := forceWith(ctx, s, c, seen, to, holderRecord{By: actor, Reason: reason}); err != nil {
		return fmt.Errorf("release %s by force: %w", seen.keys.What, err)
	}
	return nil
}

// forceWith tries until the outcome is known; why goes into the record.
func forceWith(ctx context.Context, s *etcdkv.Store, c *lane.Committer, seen State, to string, why holderRecord) error {
	txns := Txns{Space: s.Keys(), Keys: seen.keys}
	fence := etcdkv.Fence{Key: seen.Key, Token: seen.Token, Nonce: seen.nonce}
	for try := 0; ; try++ {
		v, err := Reader{s, seen.keys}.Read(ctx)
		if err == nil {
			if err := v.Current(fence); err != nil {
				return err
			}
			heir := Entry{}
			if len(v.Entries) > 0 {
				heir = v.Entries[0]
			}
			if to != "" {
				if heir, err = v.Waiter(to, seen.keys.What); err != nil {
					return err
				}
			}
			r, err := c.Do(ctx, txns.force(fence, heir, why, time.Now()))
			if err != nil || r.Succeeded {
				return err
			}
		} else if etcdkv.IsAuthError(err) || fault.IsInvalid(err) {
			return err
		}
		if perr := etcdkv.Pause(ctx, try); perr != nil {
			return errors.Join(perr, err)
		}
	}
}

// force hands a claim over on somebody's behalf, or frees it. A freed slot is put,
// not deleted: it says who did it, and a waiter that comes in this moment finds
// it changed.
func (t Txns) force(f etcdkv.Fence, to Entry, why holderRecord, now time.Time) etcdkv.Txn {
	rec := holderRecord{Nonce: keyspace.NewNonce(), By: why.By, Reason: why.Reason, Since: now.UTC().Truncate(time.Millisecond)}
	if to.Key == "" {
		return etcdkv.Txn{
			Origin: "force",
			If:     f.Cmps(), //mutant:force-shown
			Then:   []clientv3.Op{clientv3.OpPut(f.Key, record(rec))},
			Else:   []clientv3.Op{clientv3.OpGet(f.Key)},
		}
	}
	txn := t.Transfer(f, to, now)
	rec.Nonce, rec.Owner, rec.OwnerRev = to.Claim, to.Session, to.SessionRev
	txn.Origin, txn.Then[0] = "force", clientv3.OpPut(f.Key, record(rec))
	return txn
}
