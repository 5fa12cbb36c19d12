package etcdkv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Fence is the claim of a key: what package coord shows as its own Fence.
type Fence struct {
	Key   string
	Token int64 // the key's mod revision
	Nonce string
}

// Cmps returns the compares that hold while the claim is current. Those of a fence
// without a token never hold: it belongs to no claim.
func (f Fence) Cmps() []clientv3.Cmp {
	if f.Token <= 0 { //mutant:fence-without-token
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(f.Key), "<", 0)}
	}
	return GuardOf(f.Key, f.Token, f.Nonce)
}

// GuardOf returns the compares that hold while key has mod revision rev and a
// value that begins with the head nonce. An empty nonce leaves the value out;
// rev 0 means that the key does not exist, and so has no value to compare.
func GuardOf(key string, rev int64, nonce string) []clientv3.Cmp {
	if nonce == "" || rev == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev)}
	}
	// Between the head without its closing quote and the head and 0xff lies what
	// begins with head, and the head itself, which is what is left of a record that
	// was cut there. JSON holds no byte 0xff. Values are compared bytewise.
	head := keyspace.Head(nonce)
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
