package etcdtest

import (
	"context"
	"path"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Call is one unary request of a client.
type Call struct {
	// Method is the last part of its name, such as Txn or LeaseRevoke.
	Method string
	// Request is what is sent, such as *etcdserverpb.TxnRequest.
	Request any
}

// Puts tells whether the call may put a key that contains part, in nested Txns too.
func (c Call) Puts(part string) bool { return c.writes(part, false) }

// Writes tells whether the call may put or delete such a key.
func (c Call) Writes(part string) bool { return c.writes(part, true) }

func (c Call) writes(part string, deletes bool) bool {
	switch r := c.Request.(type) {
	case *pb.TxnRequest:
		return anyWrites(append(r.Success, r.Failure...), part, deletes)
	case *pb.PutRequest:
		return strings.Contains(string(r.Key), part)
	case *pb.DeleteRangeRequest:
		return deletes && strings.Contains(string(r.Key), part)
	}
	return false
}

func anyWrites(ops []*pb.RequestOp, part string, deletes bool) bool {
	for _, op := range ops {
		switch {
		case op.GetRequestPut() != nil && strings.Contains(string(op.GetRequestPut().Key), part),
			deletes && op.GetRequestDeleteRange() != nil && strings.Contains(string(op.GetRequestDeleteRange().Key), part):
			return true
		case op.GetRequestTxn() != nil:
			nested := op.GetRequestTxn()
			if anyWrites(append(nested.Success, nested.Failure...), part, deletes) {
				return true
			}
		}
	}
	return false
}

// Fate is what becomes of a call. The zero value lets it pass.
type Fate struct {
	// Refuse is returned, and nothing is sent.
	Refuse error
	// Hold keeps the call until it is closed, or the call's ctx ends: then nothing is
	// sent.
	Hold <-chan struct{}
	// Lose is returned in place of the answer.
	Lose error
	// Then runs once the call was answered, before the caller hears of it.
	Then func()
}

// Plan decides the fate of a client's unary calls, as denials, lost answers and requests
// that hang do. The zero value lets all pass. Safe for concurrent use.
type Plan struct {
	mu     sync.Mutex
	decide func(Call) Fate
}

// Set decides by f from now on; nil lets all pass. Calls of f are one at a time.
func (p *Plan) Set(f func(Call) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = f
}

// DialOptions are for Client, ProxiedClient, NewClient or clientv3.Config.
func (p *Plan) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.intercept)}
}

func (p *Plan) fate(c Call) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return Fate{}
	}
	return p.decide(c)
}

func (p *Plan) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	f := p.fate(Call{Method: path.Base(method), Request: req})
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.Refuse != nil {
		return f.Refuse
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if f.Then != nil {
		f.Then()
	}
	if f.Lose != nil && err == nil {
		return f.Lose
	}
	return err
}
