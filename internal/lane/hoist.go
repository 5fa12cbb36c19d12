package lane

import (
	"bytes"
	"hash/maphash"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// asks is what a compare asks, of whatever it compares with.
type asks struct {
	key    uint64
	target pb.Compare_CompareTarget
	result pb.Compare_CompareResult
}

// maxHoisted bounds the compares that a lean batch makes at its top.
const maxHoisted = 16

// hoist finds the compares that units of a batch have in common, such as one of
// their session: shared has each once, and rest what is left of each unit's If. No
// unit writes what another one compares, so at the batch's top they mean the same.
func hoist(units []*unit) (shared []clientv3.Cmp, rest [][]clientv3.Cmp) {
	common := commonKeys(units)
	hoisted := make(map[asks]*pb.Compare, maxHoisted)
	take := func(c *pb.Compare) bool {
		q := asks{maphash.Bytes(touchSeed, c.Key), c.Target, c.Result}
		if !common[q.key] {
			return false
		}
		first, ok := hoisted[q]
		if !ok && len(shared) < maxHoisted {
			first, hoisted[q] = c, c
			shared = append(shared, clientv3.FromCompare(c)) //mutant:lean-makes-compares
		}
		return first != nil && /*mutant:lean-same-compare*/ sameCompare(first, c)
	}
	rest = make([][]clientv3.Cmp, len(units))
	for i, u := range units {
		rest[i] = u.txn.If
		for j := range u.txn.If {
			switch taken := take(u.txn.If[j].GetCompare()); {
			case taken && len(rest[i]) == len(u.txn.If):
				rest[i] = append(make([]clientv3.Cmp, 0, len(u.txn.If)), u.txn.If[:j]...)
			case !taken && len(rest[i]) < len(u.txn.If):
				rest[i] = append(rest[i], u.txn.If[j])
			}
		}
	}
	return shared, rest
}

// commonKeys are the hashes of the keys that more than one unit touches.
func commonKeys(units []*unit) map[uint64]bool {
	common := make(map[uint64]bool, 4*len(units))
	for _, u := range units {
		for _, t := range u.touches {
			_, again := common[t.key]
			common[t.key] = again
		}
	}
	return common
}

func sameCompare(a, b *pb.Compare) bool {
	return a == b || a.Target == b.Target && a.Result == b.Result &&
		bytes.Equal(a.Key, b.Key) && bytes.Equal(a.RangeEnd, b.RangeEnd) &&
		a.GetModRevision() == b.GetModRevision() && a.GetCreateRevision() == b.GetCreateRevision() &&
		a.GetVersion() == b.GetVersion() && a.GetLease() == b.GetLease() && bytes.Equal(a.GetValue(), b.GetValue())
}
