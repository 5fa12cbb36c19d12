package coord

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/lane"
)

// Result is what a commit did.
type Result struct {
	// Succeeded is true: the ops were applied.
	Succeeded bool
	// Revision is the store's revision after the commit: the ModRevision of every key
	// that it put.
	Revision int64

	read lane.Result
}

// Get returns the first key that the i-th op has read, or nil when there was none or the
// op is not a get.
func (r Result) Get(i int) *mvccpb.KeyValue { return r.read.Get(i) }

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
func (s *Session) Commit(ctx context.Context, fences []Fence, ops ...clientv3.Op) (Result, error) {
	if err := etcdkv.CheckOps(s.store.Keys(), ops); err != nil {
		return Result{}, fmt.Errorf("commit: %w", err)
	}
	// The fences are in the same Txn as the writes: a check before it would be
	// stale by the time they happen.
	txn := etcdkv.Txn{Then: ops, Origin: "caller"}
	for _, f := range fences {
		if f.Key == "" || f.Token <= 0 {
			return Result{}, fmt.Errorf("commit: %w", &fault.InputError{Field: "fence", Value: f.Key + "@" + f.Token.String(), Reason: "it belongs to no claim; take it from a claim, hold or term"})
		}
		txn.If = append(txn.If, f.Cmps()...) //mutant:commit-fences
		txn.Else = append(txn.Else, clientv3.OpGet(f.Key))
	}
	r, err := s.committer.Do(ctx, txn)
	if err != nil {
		return Result{}, fmt.Errorf("commit: %w", err)
	}
	if !r.Succeeded {
		return Result{}, fmt.Errorf("commit: %w", r.Refusal(innerFences(fences)...))
	}
	return Result{Succeeded: true, Revision: r.Revision, read: r}, nil
}

// innerFences are the fences as the inner packages know them.
func innerFences(fences []Fence) []etcdkv.Fence {
	claims := make([]etcdkv.Fence, len(fences))
	for i, f := range fences {
		claims[i] = f.claim()
	}
	return claims
}
