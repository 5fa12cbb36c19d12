package coord

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// Commit applies ops in one Txn, only if every fence is current. It returns when
// the outcome is known or ctx ends:
//
//   - nil: applied, at the revision of the result;
//   - [*FencedError], which matches [ErrFenced]: refused, nothing was written;
//   - [ErrUnknown]: ctx ended, or the answer was lost beyond finding out;
//   - any other error: nothing was written.
//
// A commit is accepted while its claims are current, even when the session has
// already expired: nobody else holds them, and good work is not thrown away. Add
// nothing to the ops that writes under Leasekit's own root; at most 60 puts,
// deletes and nested Txns are accepted. Ranges travel alone.
func (s *Session) Commit(ctx context.Context, fences []Fence, ops ...clientv3.Op) (lane.Result, error) {
	if err := etcdkv.CheckOps(s.store.Keys(), ops); err != nil {
		return lane.Result{}, fmt.Errorf("commit: %w", err)
	}
	// The fences are in the same Txn as the writes: a check before it would be
	// stale by the time they happen.
	txn := etcdkv.Txn{Then: ops, Origin: "caller"}
	for _, f := range fences {
		if f.Key == "" || f.Token <= 0 {
			return lane.Result{}, fmt.Errorf("commit: %w", &fault.InputError{Field: "fence", Value: f.Key + "@" + f.Token.String(), Reason: "it belongs to no claim; take it from a claim, hold or term"})
		}
		txn.If = append(txn.If, f.Cmps()...) //mutant:commit-fences
		txn.Else = append(txn.Else, clientv3.OpGet(f.Key))
	}
	r, err := s.committer.Do(ctx, txn)
	if err != nil {
		return lane.Result{}, fmt.Errorf("commit: %w", err)
	}
	if !r.Succeeded {
		return lane.Result{}, fmt.Errorf("commit: %w", Refusal(r, fences...))
	}
	return r, nil
}

// Refusal turns the Else of a Txn that got the key of each fence, in order, into
// the error to return: the first fence that is not current, or [ErrRefused] when
// all are.
func Refusal(r lane.Result, fences ...Fence) error {
	for i, f := range fences {
		kv := r.Get(i)
		switch {
		case kv == nil:
			return &FencedError{Key: f.Key, Wanted: f.Token}
		case Token(kv.ModRevision) != f.Token, f.Nonce != "" && keyspace.NonceOf(kv.Value) != f.Nonce:
			return &FencedError{Key: f.Key, Wanted: f.Token, Current: Token(kv.ModRevision)}
		}
	}
	return fault.ErrRefused
}
