package lane

import (
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Refusal turns the Else of a Txn that got the key of each fence, in order, into
// the error to return: the first fence that is not current, or [fault.ErrRefused] when
// all are.
func (r Result) Refusal(fences ...etcdkv.Fence) error {
	for i, f := range fences {
		kv := r.Get(i)
		switch {
		case kv == nil:
			return &fault.FencedError{Key: f.Key, Wanted: f.Token}
		case kv.ModRevision != f.Token, f.Nonce != "" && keyspace.NonceOf(kv.Value) != f.Nonce:
			return &fault.FencedError{Key: f.Key, Wanted: f.Token, Current: kv.ModRevision}
		}
	}
	return fault.ErrRefused
}
