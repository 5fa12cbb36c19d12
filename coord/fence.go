package coord

import (
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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
func (f Fence) Cmps() []clientv3.Cmp {
	if f.Token <= 0 { //mutant:fence-without-token
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(f.Key), "<", 0)}
	}
	return guardOf(f.Key, int64(f.Token), f.Nonce)
}

// guardOf returns the compares that hold while key has mod revision rev and a
// value that begins with the head nonce. An empty nonce leaves the value out;
// rev 0 means that the key does not exist, and so has no value to compare.
func guardOf(key string, rev int64, nonce string) []clientv3.Cmp {
	if nonce == "" || rev == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev)}
	}
	// Between the head without its closing quote and the head and 0xff lies what
	// begins with head, and the head itself, which is what is left of a record that
	// was cut there. JSON holds no byte 0xff. Values are compared bytewise.
	head := headOf(nonce)
	open := head[:len(head)-1]
	cmps := make([]clientv3.Cmp, 3, 8)
	// Filled in where they are: clientv3.Compare clones, and this is in every write.
	raw := []byte(key)
	mod, above, below := cmps[0].GetCompare(), cmps[1].GetCompare(), cmps[2].GetCompare()
	mod.Key, mod.Target, mod.TargetUnion = raw, pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: rev}
	above.Key, above.Target, above.TargetUnion = raw, pb.Compare_VALUE, &pb.Compare_Value{Value: []byte(open)}
	above.Result = pb.Compare_GREATER //mutant:fence-nonce-above
	below.Key, below.Target, below.TargetUnion = raw, pb.Compare_VALUE, &pb.Compare_Value{Value: []byte(head + "\xff")}
	below.Result = pb.Compare_LESS //mutant:fence-nonce-below
	return cmps                    //mutant:fence-revision
}

// NewNonce returns 16 random hex digits: the first field of every record, fresh
// at every write, so that a guard can tell two writes of one revision number
// apart. Safe for concurrent use.
func NewNonce() string { return hex16(rand.Uint64()) }

// NonceOf returns the head nonce of a record's value, or "" when the value is
// not a record of ours.
func NonceOf(value []byte) string {
	const open = `{"w":"`
	if len(value) < len(open)+17 || string(value[:len(open)]) != open || value[len(open)+16] != '"' {
		return ""
	}
	nonce := string(value[len(open) : len(open)+16])
	if strings.Trim(nonce, "0123456789abcdef") != "" {
		return ""
	}
	return nonce
}

// headOf is how a record with this head nonce begins, byte for byte.
func headOf(nonce string) string { return `{"w":"` + nonce + `"` }

func hex16(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[n>>(60-4*i)&0xf]
	}
	return string(b[:])
}
