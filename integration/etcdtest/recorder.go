package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Recorder counts what clients send, by name:
//
//	Txn, Range, Put, LeaseGrant, ...   unary calls, by method
//	Watch.open, LeaseKeepAlive.open    streams opened
//	LeaseKeepAlive                     renewals sent
//	Watch.create, Watch.cancel         watches asked for and given up
//	Watch.progress                     progress requests sent
//
// Other streams count as <method>.open and, per message sent, <method>. What
// is sent counts whether or not it is answered. Retries by clientv3 count
// each time. The zero value is ready; it may be used concurrently and by
// several clients.
type Recorder struct {
	mu       sync.Mutex
	counts   map[string]int
	unbound  map[string]int
	answered map[string]int
	changed  chan struct{}
}

// DialOptions returns the interceptors to give to a client, through Client,
// ProxiedClient, NewClient or clientv3.Config.
func (r *Recorder) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(r.unary), grpc.WithChainStreamInterceptor(r.stream)}
}

// Count returns how often name was sent since the start or Reset.
func (r *Recorder) Count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[name]
}

// Counts returns a copy of all counts that are not zero.
func (r *Recorder) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Unbounded returns the unary calls that were sent with a ctx that has no
// deadline, by name. Such a call can hang for as long as the network does.
func (r *Recorder) Unbounded() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.unbound)
}

// Reset sets all counts to zero.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts, r.unbound, r.answered = nil, nil, nil
}

// Wait blocks until name was sent at least n times, or ctx ends.
func (r *Recorder) Wait(ctx context.Context, name string, n int) error {
	return r.wait(ctx, name, n, func() int { return r.counts[name] })
}

// WaitAny blocks until the names together were sent at least n times, or ctx ends.
func (r *Recorder) WaitAny(ctx context.Context, n int, names ...string) error {
	return r.wait(ctx, strings.Join(names, ", "), n, func() (sent int) {
		for _, name := range names {
			sent += r.counts[name]
		}
		return sent
	})
}

// WaitAnswered blocks until unary calls of name got at least n answers, good
// or bad, or streams of name received as many messages, or ctx ends.
func (r *Recorder) WaitAnswered(ctx context.Context, name string, n int) error {
	return r.wait(ctx, name, n, func() int { return r.answered[name] })
}

func (r *Recorder) wait(ctx context.Context, name string, n int, got func() int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for got() < n {
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed, have := r.changed, got()
		r.mu.Unlock()
		select {
		case <-changed:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return errors.Join(fmt.Errorf("wait for %d of %s: got %d", n, name, have), context.Cause(ctx))
		}
	}
	return nil
}

// add counts one event in the map that m points to.
func (r *Recorder) add(m *map[string]int, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[name]++
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *Recorder) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name := path.Base(method)
	r.add(&r.counts, name)
	if _, ok := ctx.Deadline(); !ok {
		r.add(&r.unbound, name)
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	r.add(&r.answered, name)
	return err
}

func (r *Recorder) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	name := path.Base(method)
	r.add(&r.counts, name+".open")
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &recordedStream{ClientStream: s, r: r, name: name}, nil
}

// recordedStream counts the messages of one stream.
type recordedStream struct {
	grpc.ClientStream
	r    *Recorder
	name string
}

func (s *recordedStream) SendMsg(m any) error {
	s.r.add(&s.r.counts, s.name+kind(m))
	return s.ClientStream.SendMsg(m)
}

func (s *recordedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.r.add(&s.r.answered, s.name)
	}
	return err
}

// kind tells the requests of a watch stream apart.
func kind(m any) string {
	req, ok := m.(*pb.WatchRequest)
	if !ok {
		return ""
	}
	switch req.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		return ".create"
	case *pb.WatchRequest_CancelRequest:
		return ".cancel"
	case *pb.WatchRequest_ProgressRequest:
		return ".progress"
	}
	return ""
}
