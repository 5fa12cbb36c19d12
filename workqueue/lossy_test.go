package workqueue_test

import (
	"bytes"
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lossy stands between a client and the network and loses what a test wants lost,
// one answer at a time: unlike a proxy it can lose the answer to a repeat, which
// travels as soon as there is a connection.
type lossy struct {
	mu    sync.Mutex
	touch []byte // Txns that put a key with this in it
	lose  int    // so many answers
	late  bool   // the request of the first loss arrives later, by deliver
	after func() // called once, behind the first loss and before the client knows
	held  []func()
	lost  int
}

// next has the answers to the next n Txns lost that put a key with part in it.
func (l *lossy) next(n int, part string, after func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch, l.lose, l.after = []byte(part), n, after
}

// nextLate has the next such Txn fail without being sent; deliver sends it.
func (l *lossy) nextLate(part string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch, l.lose, l.late = []byte(part), 1, true
}

// deliver sends the late originals.
func (l *lossy) deliver() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, send := range held {
		send()
	}
}

func (l *lossy) losses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *lossy) option() grpc.DialOption { return grpc.WithChainUnaryInterceptor(l.intercept) }

func (l *lossy) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	txn, ok := req.(*pb.TxnRequest)
	l.mu.Lock()
	hit := ok && l.lose > 0 && puts(txn, l.touch)
	late, after := false, func() {}
	if hit {
		l.lose--
		l.lost++
		if late = l.late; late {
			l.late = false
			l.held = append(l.held, func() {
				_ = invoke(context.WithoutCancel(ctx), method, req, &pb.TxnResponse{}, cc)
			})
		}
		if l.after != nil {
			after, l.after = l.after, nil
		}
	}
	l.mu.Unlock()
	if late {
		return status.Error(codes.Unavailable, "the request is late")
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if hit && err == nil {
		after()
		return status.Error(codes.Unavailable, "the answer was lost")
	}
	return err
}

// puts tells whether a Txn, or one nested in it, puts a key with part in it.
func puts(t *pb.TxnRequest, part []byte) bool {
	for _, op := range t.Success {
		if p := op.GetRequestPut(); p != nil && bytes.Contains(p.Key, part) {
			return true
		}
		if n := op.GetRequestTxn(); n != nil && puts(n, part) {
			return true
		}
	}
	return false
}
