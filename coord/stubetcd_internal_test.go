package coord

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errUnavailable is what a client sees of a server that is not there.
var errUnavailable = status.Error(codes.Unavailable, "connection refused")

// stubEtcd is just enough of etcd to open, renew, lose and close sessions inside
// a synctest bubble, where a real server cannot be: its network would keep the
// clock from moving. It counts every call.
type stubEtcd struct {
	// renewal answers keepalive number n, from 1. nil grants ttl at once.
	renewal func(ctx context.Context, n int) (int64, error)
	ttl     int64

	mu       sync.Mutex
	rev      int64
	keys     map[string]*mvccpb.KeyValue
	watchers map[string][]chan clientv3.WatchResponse
	calls    map[string]int
}

var _ backend = (*stubEtcd)(nil)

func newStubEtcd() *stubEtcd {
	return &stubEtcd{
		ttl: 10, rev: 100, keys: map[string]*mvccpb.KeyValue{}, calls: map[string]int{},
		watchers: map[string][]chan clientv3.WatchResponse{},
	}
}

// open opens a session with the stub's TTL.
func (e *stubEtcd) open(t *testing.T, cfg SessionConfig) *Session {
	t.Helper()
	s, err := e.tryOpen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func (e *stubEtcd) tryOpen(ctx context.Context, cfg SessionConfig) (*Session, error) {
	cfg.TTL = time.Duration(e.ttl) * time.Second
	keys, err := NewKeyspace("")
	if err != nil {
		return nil, err
	}
	return openSession(ctx, newStore(e, keys, nil), cfg.withDefaults())
}

func (e *stubEtcd) count(call string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[call]
}

// called counts a call; it needs no lock.
func (e *stubEtcd) called(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[name]++
	return e.calls[name]
}

// rewind takes the store back by n revisions, as a restore does.
func (e *stubEtcd) rewind(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rev -= n
}

// delete deletes a key and tells its watchers.
func (e *stubEtcd) delete(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys[key] == nil {
		return
	}
	e.rev++
	delete(e.keys, key)
	ev := &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: e.rev}}
	for _, w := range e.watchers[key] {
		w <- clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: e.rev}, Events: []*clientv3.Event{ev}}
	}
}

// deleteSilently deletes a key behind the back of its watchers, whose streams
// are dead.
func (e *stubEtcd) deleteSilently(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rev++
	delete(e.keys, key)
}

// txn knows one Txn: that of createSessionKey.
func (e *stubEtcd) txn(_ context.Context, t Txn) (*clientv3.TxnResponse, error) {
	e.called("txn")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rev++
	put := t.Then[0]
	key := string(put.KeyBytes())
	e.keys[key] = &mvccpb.KeyValue{Key: put.KeyBytes(), Value: put.ValueBytes(), CreateRevision: e.rev, ModRevision: e.rev}
	nested := &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Succeeded: true}}
	return &clientv3.TxnResponse{
		Header: &pb.ResponseHeader{Revision: e.rev}, Succeeded: true,
		Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponsePut{}}, {Response: nested}},
	}, nil
}

func (e *stubEtcd) get(_ context.Context, key string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	e.called("get")
	e.mu.Lock()
	defer e.mu.Unlock()
	resp := &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: e.rev}}
	if kv := e.keys[key]; kv != nil {
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp, nil
}

func (e *stubEtcd) scan(ctx context.Context, from string, each func([]*mvccpb.KeyValue) bool, _ ...clientv3.OpOption) (*pb.ResponseHeader, error) {
	resp, err := e.get(ctx, from)
	if err != nil || !each(resp.Kvs) {
		return nil, err
	}
	return resp.Header, nil
}

func (e *stubEtcd) watch(ctx context.Context, key string, _ ...clientv3.OpOption) clientv3.WatchChan {
	e.called("watch")
	e.mu.Lock()
	defer e.mu.Unlock()
	w := make(chan clientv3.WatchResponse, 16)
	e.watchers[key] = append(e.watchers[key], w)
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watchers[key] = slices.DeleteFunc(e.watchers[key], func(other chan clientv3.WatchResponse) bool { return other == w })
		close(w)
	})
	return w
}

func (e *stubEtcd) requestProgress(context.Context) error { e.called("progress"); return nil }

// connection is always there.
func (e *stubEtcd) connection(ctx context.Context, up bool) bool {
	if !up {
		<-ctx.Done()
	}
	return up
}

func (e *stubEtcd) grant(_ context.Context, _ clientv3.LeaseID, ttl int64) (int64, error) {
	e.called("grant")
	return max(ttl, e.ttl), nil
}

func (e *stubEtcd) revoke(_ context.Context, id clientv3.LeaseID) (int64, error) {
	e.called("revoke")
	e.mu.Lock()
	var key string
	for k := range e.keys {
		if k[len(k)-16:] == hex16(uint64(id)) {
			key = k
		}
	}
	e.mu.Unlock()
	e.delete(key)
	return 0, nil
}

func (e *stubEtcd) usage(context.Context) (size, quota int64, err error) { return 0, 0, nil }

func (e *stubEtcd) renewer(clientv3.LeaseID) renewer { return stubRenewer{e} }

type stubRenewer struct{ *stubEtcd }

func (r stubRenewer) renew(ctx context.Context) (int64, error) {
	n := r.called("renew")
	if r.renewal == nil {
		return r.ttl, nil
	}
	return r.renewal(ctx, n)
}

func (r stubRenewer) close() { r.called("renewer.close") }
