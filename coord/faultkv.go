package coord

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

// deadline is generous: it turns a hang into a failure, nothing else.
const deadline = 60 * time.Second

// errLost is what a client sees when its connection broke under a request.
var errLost = status.Error(codes.Unavailable, "transport is closing")

// fault is what becomes of one Txn. The zero value lets it pass.
type fate struct {
	hold   <-chan struct{} // not sent before it is closed, or ctx ends
	refuse error           // not sent at all
	late   bool            // not sent before the test calls deliver; refuse is returned
	lose   error           // sent, and its answer replaced by this
	then   func()          // called once its fate is decided, before it returns
}

// faultBackend is a real backend whose writing Txns meet the faults that a test
// plans. Reads pass unless readPlan says otherwise.
type faultBackend struct {
	etcdkv.Backend

	mu       sync.Mutex
	plan     func(n int, t etcdkv.Txn) fate // n counts from 1
	readPlan func(n int) error
	n, reads int
	late     []etcdkv.Txn
	started  chan struct{} // closed and replaced when a Txn comes in
	onGrant  func()        // called before a lease is granted
	onRevoke func() error  // called before a lease is revoked, which an error refuses
}

func (b *faultBackend) Revoke(ctx context.Context, id clientv3.LeaseID) (int64, error) {
	b.mu.Lock()
	onRevoke := b.onRevoke
	b.mu.Unlock()
	if onRevoke != nil {
		if err := onRevoke(); err != nil {
			return 0, err
		}
	}
	return b.Backend.Revoke(ctx, id)
}

func (b *faultBackend) Grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	b.mu.Lock()
	onGrant := b.onGrant
	b.mu.Unlock()
	if onGrant != nil {
		onGrant()
	}
	return b.Backend.Grant(ctx, id, ttl)
}

func (b *faultBackend) Txn(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	if len(t.If) == 0 {
		return b.read(ctx, t)
	}
	f := b.next(t)
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.late || f.refuse != nil {
		if f.then != nil {
			f.then()
		}
		return nil, f.refuse
	}
	resp, err := b.Backend.Txn(ctx, t)
	if f.then != nil {
		f.then()
	}
	if f.lose != nil && err == nil {
		return nil, f.lose
	}
	return resp, err
}

func (b *faultBackend) next(t etcdkv.Txn) (f fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if b.plan != nil {
		f = b.plan(b.n, t)
	}
	if f.late {
		b.late = append(b.late, t)
		if f.refuse == nil {
			f.refuse = errLost
		}
	}
	close(b.started)
	b.started = make(chan struct{})
	return f
}

func (b *faultBackend) read(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	b.reads++
	var err error
	if b.readPlan != nil {
		err = b.readPlan(b.reads)
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.Backend.Txn(ctx, t)
}

// faults plans by the number of the Txn, counted from now on.
func (b *faultBackend) faults(list ...fate) {
	b.planBy(func(n int, _ etcdkv.Txn) fate {
		if n <= len(list) {
			return list[n-1]
		}
		return fate{}
	})
}

func (b *faultBackend) planBy(plan func(n int, t etcdkv.Txn) fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.plan = 0, plan
}

// sent is how many writing Txns came in since the last plan.
func (b *faultBackend) sent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// waitSent blocks until n writing Txns came in since the last plan.
func (b *faultBackend) waitSent(t *testing.T, n int) {
	t.Helper()
	for {
		b.mu.Lock()
		have, started := b.n, b.started
		b.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-started:
		case <-within(t).Done():
			t.Fatalf("%d Txns were sent, want %d", have, n)
		}
	}
}

// deliver sends all late originals now, and fails if one of them takes effect.
func (b *faultBackend) deliver(t *testing.T) {
	t.Helper()
	if n := b.arrive(t); n > 0 {
		t.Errorf("%d late originals took effect", n)
	}
}

// arrive sends all late originals now and returns how many took effect, as those
// may that come before their repeats.
func (b *faultBackend) arrive(t *testing.T) (applied int) {
	t.Helper()
	b.mu.Lock()
	late := b.late
	b.late = nil
	b.mu.Unlock()
	for _, txn := range late {
		if resp, err := b.Backend.Txn(within(t), txn); err == nil && resp.Succeeded {
			applied++
		}
	}
	return applied
}

// world is a store on a real server behind a faultBackend, and some keys that
// are not Leasekit's.
type world struct {
	*faultBackend
	client *clientv3.Client
	store  *etcdkv.Store
	data   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOn(t, etcdtest.Shared(t).Client(t))
}

func worldOn(t *testing.T, client *clientv3.Client) *world {
	t.Helper()
	root := etcdtest.Root(t)
	keys, err := keyspace.New(root + "leasekit/")
	if err != nil {
		t.Fatal(err)
	}
	fb := &faultBackend{Backend: etcdkv.NewBackend(client), started: make(chan struct{})}
	return &world{faultBackend: fb, client: client, store: etcdkv.NewStoreOn(fb, keys, nil), data: root + "data/"}
}

// dump is every foreign key with its revisions and value.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	resp, err := w.client.Get(within(t), w.data, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range resp.Kvs {
		fmt.Fprintf(&b, "%s=%s created %d modified %d version %d\n",
			strings.TrimPrefix(string(kv.Key), w.data), kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	}
	return b.String()
}

func (w *world) put(t *testing.T, name, value string) int64 {
	t.Helper()
	resp, err := w.client.Put(within(t), w.data+name, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// version is how often a key was put since it was created; 0 when it is not there.
func (w *world) version(t *testing.T, name string) int64 {
	t.Helper()
	resp, err := w.client.Get(within(t), w.data+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].Version
}

// lanes is how many keys there are under lanes/.
func (w *world) lanes(t *testing.T) int64 {
	t.Helper()
	resp, err := w.client.Get(within(t), w.store.Keys().Lanes(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func putTxn(key, value string) etcdkv.Txn {
	return etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(key, value)}}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error: got %v, want %v", got, want)
	}
}

// lossy are the ways in which the answer of a batch gets lost.
var lossy = []struct {
	name   string
	faults []fate
}{
	{"answered", nil},
	{"answer lost", []fate{{lose: errLost}}},
	{"answer and the repeat's lost", []fate{{lose: errLost}, {lose: errLost}}},
	{"answers lost for long", []fate{{lose: errLost}, {lose: context.DeadlineExceeded}, {lose: status.Error(codes.Unknown, "EOF")}, {lose: errLost}}},
	{"request lost", []fate{{refuse: errLost}}},
	{"request lost, then the repeat's answer", []fate{{refuse: errLost}, {lose: errLost}}},
	{"original late", []fate{{late: true}}},
	{"original late, the repeat's answer lost", []fate{{late: true}, {lose: errLost}}},
	{"original and repeat late", []fate{{late: true}, {late: true}}},
	// The original is delivered while its repeat is under way: it wins.
	{"answer lost, then refused outright", []fate{{lose: errLost}, {refuse: rpctypes.ErrPermissionDenied}}},
	{"answer lost, then an error that stays", []fate{
		{lose: errLost}, {refuse: rpctypes.ErrCorrupt}, {refuse: rpctypes.ErrCorrupt}, {refuse: rpctypes.ErrCorrupt},
	}},
	{"answer too large for us", []fate{{lose: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)")}}},
}

func wantVersions(t *testing.T, w *world, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got := w.version(t, name); got != n {
			t.Errorf("%s: got version %d, want %d", name, got, n)
		}
	}
}

// value is what a key holds, "" when it is not there.
func (w *world) value(t *testing.T, name string) string {
	t.Helper()
	resp, err := w.client.Get(within(t), w.data+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}
