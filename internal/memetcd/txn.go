package memetcd

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Txn applies a transaction: all compares, nested ones too, are of the state
// before it; reads inside of it see its earlier writes; all that it writes has one
// revision. With an error nothing is applied.
func (s *Store) Txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r, maxTxnOps); err != nil {
		return nil, err
	}
	for _, branch := range [2][]*pb.RequestOp{r.Success, r.Failure} {
		if _, _, err := intervals(branch); err != nil {
			return nil, err
		}
	}
	taken := s.decide(r)
	if err := s.canApply(taken); err != nil {
		return nil, err
	}
	w := s.write()
	resp := w.txn(taken)
	resp.Header = &pb.ResponseHeader{Revision: w.end()}
	return resp, nil
}

// branch is the part of a Txn that happens.
type branch struct {
	succeeded bool
	ops       []*pb.RequestOp
	nested    []branch // of the ops that are Txns, in order
}

// decide evaluates all compares, before anything is written.
func (s *Store) decide(r *pb.TxnRequest) branch {
	b := branch{succeeded: s.holds(r.Compare), ops: r.Success}
	if !b.succeeded {
		b.ops = r.Failure
	}
	for _, op := range b.ops {
		if t := op.GetRequestTxn(); t != nil {
			b.nested = append(b.nested, s.decide(t))
		}
	}
	return b
}

func (s *Store) holds(cmps []*pb.Compare) bool {
	for _, c := range cmps {
		if !s.holdsOne(c) {
			return false
		}
	}
	return true
}

// holdsOne tells whether every key of the compare's range satisfies it. Where there
// is none, a key of revision 0 is compared, and a value never.
func (s *Store) holdsOne(c *pb.Compare) bool {
	found := within(s.All(), c.Key, c.RangeEnd)
	if len(found) == 0 {
		return c.Target != pb.Compare_VALUE && satisfies(c, &mvccpb.KeyValue{})
	}
	for _, kv := range found {
		if !satisfies(c, kv) {
			return false
		}
	}
	return true
}

func satisfies(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var order int
	switch c.Target {
	case pb.Compare_VALUE:
		order = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		order = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		order = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	}
	return true
}

// canApply refuses what cannot be applied. The branches that do not happen are not
// looked at.
func (s *Store) canApply(b branch) error {
	nested := b.nested
	for _, op := range b.ops {
		var err error
		switch {
		case op.GetRequestRange() != nil:
			err = s.readable(op.GetRequestRange())
		case op.GetRequestPut() != nil:
			err = s.canPut(op.GetRequestPut())
		case op.GetRequestTxn() != nil:
			err = s.canApply(nested[0])
			nested = nested[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) txn(b branch) *pb.TxnResponse {
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: b.succeeded, Responses: make([]*pb.ResponseOp, len(b.ops))}
	nested := b.nested
	for i, op := range b.ops {
		out := &pb.ResponseOp{}
		switch {
		case op.GetRequestRange() != nil:
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: w.rangeOf(op.GetRequestRange())}
		case op.GetRequestPut() != nil:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.put(op.GetRequestPut())}
		case op.GetRequestDeleteRange() != nil:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.delete(op.GetRequestDeleteRange())}
		case op.GetRequestTxn() != nil:
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: w.txn(nested[0])}
			nested = nested[1:]
		}
		resp.Responses[i] = out
	}
	return resp
}

// rangeOf reads inside of the Txn.
func (w *writer) rangeOf(r *pb.RangeRequest) *pb.RangeResponse {
	kvs := w.kvs
	if r.Revision > 0 && r.Revision < w.rev {
		kvs = w.s.at(r.Revision)
	}
	return answer(within(kvs, r.Key, r.RangeEnd), r, w.reads())
}
