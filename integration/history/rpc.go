package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// RPCs watches what a client sends, for what must never be sent (I9): calls without a
// deadline, Txns that compare and neither read nor write, which etcd answers from stale
// state, and reads of ranges that are sorted or filtered by revision, for which etcd
// loads the whole range. The zero value is ready. Safe for concurrent use, by several
// clients.
type RPCs struct {
	mu    sync.Mutex
	bad   map[string]int
	calls int
}

// DialOptions returns the interceptors to give to a client.
func (r *RPCs) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(r.unary)}
}

// Calls is how many calls were looked at.
func (r *RPCs) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// Err tells what was sent that must not be, and how often; nil when nothing was.
func (r *RPCs) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, what := range slices.Sorted(maps.Keys(r.bad)) {
		errs = append(errs, fmt.Errorf("I9: sent %s, %d times", what, r.bad[what]))
	}
	return errors.Join(errs...)
}

func (r *RPCs) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	_, bounded := ctx.Deadline()
	r.look(path.Base(method), bounded, req)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (r *RPCs) look(method string, bounded bool, req any) {
	found := unwanted(req)
	// clientv3 logs in by itself where a stream is opened, with the stream's context:
	// cancelled in time, but without a deadline.
	if !bounded && method != "Authenticate" {
		found = append(found, method+" without a deadline")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.bad == nil {
		r.bad = map[string]int{}
	}
	for _, what := range found {
		r.bad[what]++
	}
}

// unwanted tells what is wrong with a request.
func unwanted(req any) []string {
	switch q := req.(type) {
	case *pb.RangeRequest:
		return unwantedRange(q)
	case *pb.TxnRequest:
		found := unwantedOps(append(slices.Clone(q.Success), q.Failure...))
		if len(q.Compare) > 0 && !linearizable(q.Success) && !linearizable(q.Failure) {
			found = append(found, "a Txn of compares alone, which etcd answers from stale state")
		}
		return found
	}
	return nil
}

// linearizable tells whether etcd cannot answer these ops from local state.
func linearizable(ops []*pb.RequestOp) bool {
	return slices.ContainsFunc(ops, func(op *pb.RequestOp) bool {
		if get := op.GetRequestRange(); get != nil {
			return !get.Serializable
		}
		if txn := op.GetRequestTxn(); txn != nil {
			return linearizable(txn.Success) || linearizable(txn.Failure)
		}
		return true
	})
}

func unwantedOps(ops []*pb.RequestOp) []string {
	var found []string
	for _, op := range ops {
		if get := op.GetRequestRange(); get != nil {
			found = append(found, unwantedRange(get)...)
		}
		if txn := op.GetRequestTxn(); txn != nil {
			// A nested Txn without ops is decided with its parent, never locally.
			found = append(found, unwantedOps(append(slices.Clone(txn.Success), txn.Failure...))...)
		}
	}
	return found
}

func unwantedRange(q *pb.RangeRequest) []string {
	if len(q.RangeEnd) == 0 {
		return nil
	}
	var found []string
	byKey := q.SortTarget == pb.RangeRequest_KEY && q.SortOrder != pb.RangeRequest_DESCEND
	if q.SortOrder != pb.RangeRequest_NONE && !byKey {
		found = append(found, "a sorted read of a range")
	}
	if q.MinModRevision != 0 || q.MaxModRevision != 0 || q.MinCreateRevision != 0 || q.MaxCreateRevision != 0 {
		found = append(found, "a read of a range that is filtered by revision")
	}
	return found
}
