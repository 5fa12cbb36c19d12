package coord

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// Fence proves that a claim is current: the key still has the revision of the
// claim and its value still begins with the claim's head nonce. It is a plain
// value, safe to copy and to share.
//
// The revision orders the claims of a key. The nonce is there because a cluster
// restored from an older backup goes back in revisions and can reach the same
// number again for another owner.
type Fence struct {
	// Key is the claimed key.
	Key string
	// Token is the claim's token.
	Token Token
	// Nonce is the head nonce of the record that the claim wrote. Empty means
	// that only the revision is compared, which does not cover a restore.
	Nonce string
}

// IsZero tells whether f belongs to no claim.
func (f Fence) IsZero() bool { return f == Fence{} }

// Cmps returns the compares to put into the If of any Txn whose writes must
// happen only while the claim is current. Those of a fence without a token never
// hold: it belongs to no claim.
func (f Fence) Cmps() []clientv3.Cmp { return f.claim().Cmps() }

// claim is the fence as the inner packages know it.
func (f Fence) claim() etcdkv.Fence {
	return etcdkv.Fence{Key: f.Key, Token: int64(f.Token), Nonce: f.Nonce}
}
