package memetcd

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxTxnOps is etcd's default --max-txn-ops. What a Txn uses of it is not there for
// those that it nests.
const maxTxnOps = 128

func checkTxn(r *pb.TxnRequest, room int) error {
	used := max(len(r.Compare), len(r.Success), len(r.Failure))
	if used > room {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [2][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if err := checkOp(op, room-used); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, room int) error {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return checkRange(r.RequestRange)
	case *pb.RequestOp_RequestPut:
		return checkPut(r.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		if len(r.RequestDeleteRange.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		return nil
	case *pb.RequestOp_RequestTxn:
		return checkTxn(r.RequestTxn, room)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

// interval is what one delete may delete.
type interval struct{ from, end []byte }

func (i interval) covers(key string) bool {
	k := []byte(key)
	if len(i.end) == 0 {
		return bytes.Equal(i.from, k)
	}
	return bytes.Compare(i.from, k) <= 0 && bytes.Compare(k, i.end) < 0
}

func covered(dels []interval, key string) bool {
	for _, d := range dels {
		if d.covers(key) {
			return true
		}
	}
	return false
}

// intervals refuses a branch that puts a key twice, or puts and deletes it, where the
// branches of one nested Txn do not count twice, since only one of them happens. As
// on a server, a put of a nested Txn that stands before the one that deletes the key
// passes.
func intervals(ops []*pb.RequestOp) (puts map[string]bool, dels []interval, err error) {
	puts = map[string]bool{}
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			dels = append(dels, interval{d.Key, d.RangeEnd})
		}
	}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		then, thenDels, err := intervals(t.Success)
		if err != nil {
			return nil, nil, err
		}
		els, elsDels, err := intervals(t.Failure)
		if err != nil {
			return nil, nil, err
		}
		for _, children := range [2]map[string]bool{then, els} {
			for key := range children {
				if puts[key] || covered(dels, key) {
					return nil, nil, rpctypes.ErrGRPCDuplicateKey
				}
			}
		}
		for key := range then {
			puts[key] = true
		}
		for key := range els {
			puts[key] = true
		}
		dels = append(append(dels, thenDels...), elsDels...)
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			key := string(p.Key)
			if puts[key] || covered(dels, key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[key] = true
		}
	}
	return puts, dels, nil
}
