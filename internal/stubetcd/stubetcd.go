// Package stubetcd is just enough of etcd for tests inside a synctest bubble, where a real
// server cannot be. It is for tests alone.
package stubetcd

import (
	"context"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// ErrUnavailable is what a client sees of a server that is not there.
var ErrUnavailable = status.Error(codes.Unavailable, "connection refused")

// Etcd is just enough of etcd to open, renew, lose and close sessions inside
// a synctest bubble, where a real server cannot be: its network would keep the
// clock from moving. It counts every call.
type Etcd struct {
	// renewal answers keepalive number n, from 1. nil grants ttl at once.
	Renewal func(ctx context.Context, n int) (int64, error)
	TTL     int64

	Mu       sync.Mutex
	Rev      int64
	Keys     map[string]*mvccpb.KeyValue
	watchers map[string][]chan clientv3.WatchResponse
	calls    map[string]int
}

var _ etcdkv.Backend = (*Etcd)(nil)

func New() *Etcd {
	return &Etcd{
		TTL: 10, Rev: 100, Keys: map[string]*mvccpb.KeyValue{}, calls: map[string]int{},
		watchers: map[string][]chan clientv3.WatchResponse{},
	}
}

func (e *Etcd) Count(call string) int {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return e.calls[call]
}

// called counts a call; it needs no lock.
func (e *Etcd) called(name string) int {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.calls[name]++
	return e.calls[name]
}

// Rewind takes the store back by n revisions, as a restore does.
func (e *Etcd) Rewind(n int64) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.Rev -= n
}

// Delete deletes a key and tells its watchers.
func (e *Etcd) Delete(key string) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Keys[key] == nil {
		return
	}
	e.Rev++
	delete(e.Keys, key)
	ev := &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: e.Rev}}
	for _, w := range e.watchers[key] {
		w <- clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: e.Rev}, Events: []*clientv3.Event{ev}}
	}
}

// DeleteSilently deletes a key behind the back of its watchers, whose streams
// are dead.
func (e *Etcd) DeleteSilently(key string) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.Rev++
	delete(e.Keys, key)
}

// Txn knows one Txn: that of createSessionKey.
func (e *Etcd) Txn(_ context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	e.called("txn")
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.Rev++
	put := t.Then[0]
	key := string(put.KeyBytes())
	e.Keys[key] = &mvccpb.KeyValue{Key: put.KeyBytes(), Value: put.ValueBytes(), CreateRevision: e.Rev, ModRevision: e.Rev}
	nested := &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Succeeded: true}}
	return &clientv3.TxnResponse{
		Header: &pb.ResponseHeader{Revision: e.Rev}, Succeeded: true,
		Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{}}, {Response: nested}},
	}, nil
}

func (e *Etcd) Get(_ context.Context, key string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	e.called("get")
	e.Mu.Lock()
	defer e.Mu.Unlock()
	resp := &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: e.Rev}}
	if kv := e.Keys[key]; kv != nil {
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp, nil
}

func (e *Etcd) Scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, _ ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	resp, err := e.Get(ctx, from)
	if err != nil || !each(resp.Kvs) {
		return nil, err
	}
	return resp.Header, nil
}

func (e *Etcd) Watch(ctx context.Context, key string, _ ...clientv3.OpOption) clientv3.WatchChan {
	e.called("watch")
	e.Mu.Lock()
	defer e.Mu.Unlock()
	w := make(chan clientv3.WatchResponse, 16)
	e.watchers[key] = append(e.watchers[key], w)
	context.AfterFunc(ctx, func() {
		e.Mu.Lock()
		defer e.Mu.Unlock()
		e.watchers[key] = slices.DeleteFunc(e.watchers[key], func(other chan clientv3.WatchResponse) bool { return other == w })
		close(w)
	})
	return w
}

func (e *Etcd) RequestProgress(context.Context) error { e.called("progress"); return nil }

// Connection is always there.
func (e *Etcd) Connection(ctx context.Context, up bool) bool {
	if !up {
		<-ctx.Done()
	}
	return up
}

func (e *Etcd) Grant(_ context.Context, _ clientv3.LeaseID, ttl int64) (int64, error) {
	e.called("grant")
	return max(ttl, e.TTL), nil
}

func (e *Etcd) Revoke(_ context.Context, id clientv3.LeaseID) (int64, error) {
	e.called("revoke")
	e.Mu.Lock()
	var key string
	for k := range e.Keys {
		if k[len(k)-16:] == keyspace.Hex16(uint64(id)) {
			key = k
		}
	}
	e.Mu.Unlock()
	e.Delete(key)
	return 0, nil
}

func (e *Etcd) Usage(context.Context) (size, quota int64, err error) { return 0, 0, nil }

func (e *Etcd) Renewer(clientv3.LeaseID) etcdkv.Renewer { return stubRenewer{e} }

type stubRenewer struct{ *Etcd }

func (r stubRenewer) Renew(ctx context.Context) (int64, error) {
	n := r.called("renew")
	if r.Renewal == nil {
		return r.TTL, nil
	}
	return r.Renewal(ctx, n)
}

func (r stubRenewer) Close() { r.called("renewer.close") }

// OneKey lets its user read the range [key, end) and nothing else, as a role of etcd
// does, and carries reading Txns, all of which find nothing.
type OneKey struct {
	*Etcd
	Key, End string
}

func (b *OneKey) may(key string, opts ...clientv3.OpOption) bool {
	op := clientv3.OpGet(key, opts...)
	return b.Key <= key && string(op.RangeBytes()) <= b.End && key < b.End
}

func (b *OneKey) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if !b.may(key, opts...) {
		return nil, rpctypes.ErrPermissionDenied
	}
	return b.Etcd.Get(ctx, key, opts...)
}

func (b *OneKey) Scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	if !b.may(from, opts...) {
		return nil, rpctypes.ErrPermissionDenied
	}
	return b.Etcd.Scan(ctx, from, each, opts...)
}

func (b *OneKey) Txn(context.Context, etcdkv.Txn) (*clientv3.TxnResponse, error) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return &clientv3.TxnResponse{Header: &pb.ResponseHeader{Revision: b.Rev}}, nil
}
