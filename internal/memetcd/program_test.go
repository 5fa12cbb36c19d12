package memetcd_test

import (
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// program draws random requests about a few keys and leases, so that they meet. Its
// revisions are relative to rev0: the same program runs on two stores that are at
// different revisions.
type program struct {
	*rand.Rand
	root string
	rev  int64 // about where the store is
}

const (
	keysOfProgram   = 6
	leasesOfProgram = 4
)

func (p *program) key() string {
	if p.IntN(200) == 0 {
		return ""
	}
	return fmt.Sprintf("%sk%d", p.root, p.IntN(keysOfProgram))
}

func (p *program) value() string { return fmt.Sprintf("v%d", p.IntN(5)) }

func (p *program) leaseID() clientv3.LeaseID { return clientv3.LeaseID(7000 + p.IntN(leasesOfProgram)) }

// revision is mostly a recent one, sometimes one that is not there yet.
func (p *program) revision() int64 { return max(1, p.rev-int64(p.IntN(12))+int64(p.IntN(14)/13*3)) }

func (p *program) rangeOpts(rev0 int64, history bool) []clientv3.OpOption {
	var opts []clientv3.OpOption
	switch p.IntN(5) {
	case 0:
		opts = append(opts, clientv3.WithPrefix())
	case 1:
		opts = append(opts, clientv3.WithRange(fmt.Sprintf("%sk%d", p.root, p.IntN(keysOfProgram))))
	}
	if p.IntN(4) == 0 {
		opts = append(opts, clientv3.WithLimit(int64(p.IntN(3))))
	}
	if history && p.IntN(3) == 0 {
		opts = append(opts, clientv3.WithRev(rev0+p.revision()))
	}
	switch p.IntN(8) {
	case 0:
		opts = append(opts, clientv3.WithKeysOnly())
	case 1:
		opts = append(opts, clientv3.WithCountOnly())
	}
	return opts
}

func (p *program) get(rev0 int64) clientv3.Op {
	key := p.key()
	opts := p.rangeOpts(rev0, true)
	if key != "" && p.IntN(10) == 0 {
		key, opts = p.root, append(opts, clientv3.WithPrefix())
	}
	return clientv3.OpGet(key, opts...)
}

func (p *program) put() clientv3.Op {
	var opts []clientv3.OpOption
	value := p.value()
	switch p.IntN(12) {
	case 0, 1, 2:
		opts = append(opts, clientv3.WithLease(p.leaseID()))
	case 3:
		opts = append(opts, clientv3.WithIgnoreLease())
	case 4:
		opts, value = append(opts, clientv3.WithIgnoreValue()), ""
	}
	if p.IntN(4) == 0 {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return clientv3.OpPut(p.key(), value, opts...)
}

func (p *program) delete() clientv3.Op {
	var opts []clientv3.OpOption
	switch p.IntN(8) {
	case 0:
		opts = append(opts, clientv3.WithPrefix())
	case 1:
		opts = append(opts, clientv3.WithRange(fmt.Sprintf("%sk%d", p.root, p.IntN(keysOfProgram))))
	}
	if p.IntN(4) == 0 {
		opts = append(opts, clientv3.WithPrevKV())
	}
	return clientv3.OpDelete(p.key(), opts...)
}

func (p *program) compare(rev0 int64) clientv3.Cmp {
	result := []string{"=", "!=", ">", "<"}[p.IntN(4)]
	rev := int64(0)
	if p.IntN(3) > 0 {
		rev = rev0 + p.revision()
	}
	key := p.key()
	var c clientv3.Cmp
	switch p.IntN(5) {
	case 0:
		c = clientv3.Compare(clientv3.Value(key), result, p.value())
	case 1:
		c = clientv3.Compare(clientv3.CreateRevision(key), result, rev)
	case 2:
		c = clientv3.Compare(clientv3.ModRevision(key), result, rev)
	case 3:
		c = clientv3.Compare(clientv3.Version(key), result, p.Int64N(4))
	case 4:
		c = clientv3.Compare(clientv3.LeaseValue(key), result, p.leaseID()*clientv3.LeaseID(p.IntN(2)))
	}
	switch p.IntN(6) {
	case 0:
		c = c.WithPrefix()
	case 1:
		c = c.WithRange(fmt.Sprintf("%sk%d", p.root, p.IntN(keysOfProgram)))
	}
	return c
}

// txn is what Leasekit sends, and worse: nested, with duplicate keys, too large.
func (p *program) txn(rev0 int64, depth int) (cmps []clientv3.Cmp, then, els []clientv3.Op) {
	for range p.IntN(3) {
		cmps = append(cmps, p.compare(rev0))
	}
	if p.IntN(60) == 0 {
		for range 126 + p.IntN(4) {
			then = append(then, clientv3.OpGet(p.root+"k0"))
		}
	}
	return cmps, append(then, p.ops(rev0, depth)...), p.ops(rev0, depth)
}

func (p *program) ops(rev0 int64, depth int) (ops []clientv3.Op) {
	for range p.IntN(4) {
		switch n := p.IntN(10); {
		case n < 3:
			ops = append(ops, p.get(rev0))
		case n < 6:
			ops = append(ops, p.put())
		case n < 7:
			ops = append(ops, p.delete())
		case depth > 0:
			ops = append(ops, clientv3.OpTxn(p.txn(rev0, depth-1)))
		}
	}
	return ops
}

// printed is an answer with its revisions relative to rev0. The headers of what is
// nested are left out: nobody looks at them.
type printed struct {
	rev0 int64
	out  []byte
}

func (w *printed) f(format string, args ...any) { w.out = fmt.Appendf(w.out, format, args...) }

func (w *printed) rev(r int64) int64 {
	if r == 0 {
		return 0
	}
	return r - w.rev0
}

func (w *printed) txn(r *pb.TxnResponse) {
	w.f("succeeded=%v{", r.Succeeded)
	for _, op := range r.Responses {
		switch o := op.Response.(type) {
		case *pb.ResponseOp_ResponseRange:
			w.found(o.ResponseRange)
		case *pb.ResponseOp_ResponsePut:
			w.f("put ")
			w.kv(o.ResponsePut.PrevKv)
		case *pb.ResponseOp_ResponseDeleteRange:
			w.deleted(o.ResponseDeleteRange)
		case *pb.ResponseOp_ResponseTxn:
			w.txn(o.ResponseTxn)
		}
		w.f("; ")
	}
	w.f("}")
}

func (w *printed) found(r *pb.RangeResponse) {
	w.f("got count=%d more=%v", r.Count, r.More)
	for _, kv := range r.Kvs {
		w.kv(kv)
	}
}

func (w *printed) deleted(r *pb.DeleteRangeResponse) {
	w.f("deleted %d", r.Deleted)
	for _, kv := range r.PrevKvs {
		w.kv(kv)
	}
}
