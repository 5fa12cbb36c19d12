// Package faultkv stands between tests and a real etcd: what becomes of each request is
// planned. It is for tests alone.
package faultkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Deadline is generous: it turns a hang into a failure, nothing else.
const Deadline = 60 * time.Second

// ErrLost is what a client sees when its connection broke under a request.
var ErrLost = status.Error(codes.Unavailable, "transport is closing")

// Fate is what becomes of one Txn. The zero value lets it pass.
type Fate struct {
	Hold   <-chan struct{} // not sent before it is closed, or ctx ends
	Refuse error           // not sent at all
	Late   bool            // not sent before the test calls deliver; refuse is returned
	Lose   error           // sent, and its answer replaced by this
	Then   func()          // called once its fate is decided, before it returns
}

// Backend is a real backend whose writing Txns meet the faults that a test
// plans. Reads pass unless ReadPlan says otherwise.
type Backend struct {
	etcdkv.Backend

	Mu           sync.Mutex
	Plan         func(n int, t etcdkv.Txn) Fate // n counts from 1
	ReadPlan     func(n int) error
	Count, reads int
	Late         []etcdkv.Txn
	started      chan struct{} // closed and replaced when a Txn comes in
	OnGrant      func()        // called before a lease is granted
	OnRevoke     func() error  // called before a lease is revoked, which an error refuses
}

func (b *Backend) Revoke(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	b.Mu.Lock()
	onRevoke := b.OnRevoke
	b.Mu.Unlock()
	if onRevoke != nil {
		if err := onRevoke(); err != nil {
			return 0, err
		}
	}
	return b.Backend.Revoke(ctx, id)
}

func (b *Backend) Grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	b.Mu.Lock()
	onGrant := b.OnGrant
	b.Mu.Unlock()
	if onGrant != nil {
		onGrant()
	}
	return b.Backend.Grant(ctx, id, ttl)
}

func (b *Backend) Txn(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	if len(t.If) == 0 {
		return b.read(ctx, t)
	}
	f := b.next(t)
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.Late || f.Refuse != nil {
		if f.Then != nil {
			f.Then()
		}
		return nil, f.Refuse
	}
	resp, err := b.Backend.Txn(ctx, t)
	if f.Then != nil {
		f.Then()
	}
	if f.Lose != nil && err == nil {
		return nil, f.Lose
	}
	return resp, err
}

func (b *Backend) next(t etcdkv.Txn) (f Fate) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Count++
	if b.Plan != nil {
		f = b.Plan(b.Count, t)
	}
	if f.Late {
		b.Late = append(b.Late, t)
		if f.Refuse == nil {
			f.Refuse = ErrLost
		}
	}
	close(b.started)
	b.started = make(chan struct{})
	return f
}

func (b *Backend) read(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	b.Mu.Lock()
	b.reads++
	var err error
	if b.ReadPlan != nil {
		err = b.ReadPlan(b.reads)
	}
	b.Mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.Backend.Txn(ctx, t)
}

// Faults plans by the number of the Txn, counted from now on.
func (b *Backend) Faults(list ...Fate) {
	b.PlanBy(func(n int, _ etcdkv.Txn) Fate {
		if n <= len(list) {
			return list[n-1]
		}
		return Fate{}
	})
}

func (b *Backend) PlanBy(plan func(n int, t etcdkv.Txn) Fate) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Count, b.Plan = 0, plan
}

// Sent is how many writing Txns came in since the last plan.
func (b *Backend) Sent() int {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.Count
}

// WaitSent blocks until n writing Txns came in since the last plan.
func (b *Backend) WaitSent(t *testing.T, n int) {
	t.Helper()
	for {
		b.Mu.Lock()
		have, started := b.Count, b.started
		b.Mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-started:
		case <-Within(t).Done():
			t.Fatalf("%d Txns were sent, want %d", have, n)
		}
	}
}

// Deliver sends all late originals now, and fails if one of them takes effect.
func (b *Backend) Deliver(t *testing.T) {
	t.Helper()
	if n := b.Arrive(t); n > 0 {
		t.Errorf("%d late originals took effect", n)
	}
}

// Arrive sends all late originals now and returns how many took effect, as those
// may that come before their repeats.
func (b *Backend) Arrive(t *testing.T) (applied int) {
	t.Helper()
	b.Mu.Lock()
	late := b.Late
	b.Late = nil
	b.Mu.Unlock()
	for _, txn := range late {
		if resp, err := b.Backend.Txn(Within(t), txn); err == nil && resp.Succeeded {
			applied++
		}
	}
	return applied
}

// World is a store on a real server behind a Backend, and some keys that
// are not Leasekit's.
type World struct {
	*Backend
	Client *clientv3.Client
	Store  *etcdkv.Store
	Data   string
}

func NewWorld(t *testing.T) *World {
	t.Helper()
	return WorldOn(t, etcdtest.Shared(t).Client(t))
}

func WorldOn(t *testing.T, client *clientv3.Client) *World {
	t.Helper()
	root := etcdtest.Root(t)
	keys, err := keyspace.New(root + "leasekit/")
	if err != nil {
		t.Fatal(err)
	}
	fb := &Backend{Backend: etcdkv.NewBackend(client), started: make(chan struct{})}
	return &World{Backend: fb, Client: client, Store: etcdkv.NewStoreOn(fb, keys, nil), Data: root + "data/"}
}

// Dump is every foreign key with its revisions and value.
func (w *World) Dump(t *testing.T) string {
	t.Helper()
	resp, err := w.Client.Get(Within(t), w.Data, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range resp.Kvs {
		fmt.Fprintf(&b, "%s=%s created %d modified %d version %d\n",
			strings.TrimPrefix(string(kv.Key), w.Data), kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	}
	return b.String()
}

func (w *World) Put(t *testing.T, name, value string) int64 {
	t.Helper()
	resp, err := w.Client.Put(Within(t), w.Data+name, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// Version is how often a key was put since it was created; 0 when it is not there.
func (w *World) Version(t *testing.T, name string) int64 {
	t.Helper()
	resp, err := w.Client.Get(Within(t), w.Data+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].Version
}

// Lanes is how many keys there are under lanes/.
func (w *World) Lanes(t *testing.T) int64 {
	t.Helper()
	resp, err := w.Client.Get(Within(t), w.Store.Keys().Lanes(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	t.Cleanup(cancel)
	return ctx
}

func PutTxn(key, value string) etcdkv.Txn {
	return etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(key, value)}}
}

func WantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error: got %v, want %v", got, want)
	}
}

// Lossy are the ways in which the answer of a batch gets lost.
var Lossy = []struct {
	Name   string
	Faults []Fate
}{
	{"answered", nil},
	{"answer lost", []Fate{{Lose: ErrLost}}},
	{"answer and the repeat's lost", []Fate{{Lose: ErrLost}, {Lose: ErrLost}}},
	{"answers lost for long", []Fate{{Lose: ErrLost}, {Lose: context.DeadlineExceeded}, {Lose: status.Error(codes.Unknown, "EOF")}, {Lose: ErrLost}}},
	{"request lost", []Fate{{Refuse: ErrLost}}},
	{"request lost, then the repeat's answer", []Fate{{Refuse: ErrLost}, {Lose: ErrLost}}},
	{"original late", []Fate{{Late: true}}},
	{"original late, the repeat's answer lost", []Fate{{Late: true}, {Lose: ErrLost}}},
	{"original and repeat late", []Fate{{Late: true}, {Late: true}}},
	// The original is delivered while its repeat is under way: it wins.
	{"answer lost, then refused outright", []Fate{{Lose: ErrLost}, {Refuse: rpctypes.ErrPermissionDenied}}},
	{"answer lost, then an error that stays", []Fate{
		{Lose: ErrLost}, {Refuse: rpctypes.ErrCorrupt}, {Refuse: rpctypes.ErrCorrupt}, {Refuse: rpctypes.ErrCorrupt},
	}},
	{"answer too large for us", []Fate{{Lose: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)")}}},
}

func WantVersions(t *testing.T, w *World, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got := w.Version(t, name); got != n {
			t.Errorf("%s: got version %d, want %d", name, got, n)
		}
	}
}

// Value is what a key holds, "" when it is not there.
func (w *World) Value(t *testing.T, name string) string {
	t.Helper()
	resp, err := w.Client.Get(Within(t), w.Data+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}
