package coord_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/mirror"
)

// memory is a sink that checks what a mirror promises: revisions in order, each
// event once.
type memory struct {
	t *testing.T

	mu      sync.Mutex
	keys    map[string]string
	rev     int64 // of the last event or reset
	resets  int
	events  int
	changed chan struct{}
}

func newMemory(t *testing.T) *memory {
	return &memory{t: t, keys: map[string]string{}, changed: make(chan struct{})}
}

func (m *memory) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = map[string]string{}
	for _, kv := range kvs {
		m.keys[string(kv.Key)] = string(kv.Value)
	}
	m.rev = rev
	m.resets++
	m.tell()
}

func (m *memory) Apply(events []*clientv3.Event, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range events {
		if ev.Kv.ModRevision <= m.rev {
			m.t.Errorf("event of revision %d after revision %d", ev.Kv.ModRevision, m.rev)
		}
		if ev.Type == clientv3.EventTypeDelete {
			delete(m.keys, string(ev.Kv.Key))
		} else {
			m.keys[string(ev.Kv.Key)] = string(ev.Kv.Value)
		}
		m.events++
	}
	if len(events) > 0 {
		if last := events[len(events)-1].Kv.ModRevision; rev != last {
			m.t.Errorf("events up to revision %d are said to reach %d", last, rev)
		}
		m.rev = rev
	}
	m.tell()
}

func (m *memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// wait blocks until cond holds, which is called with mu held.
func (m *memory) wait(what string, cond func() bool) {
	m.t.Helper()
	deadline := within(m.t)
	m.mu.Lock()
	defer m.mu.Unlock()
	for !cond() {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
			m.mu.Lock()
		case <-deadline.Done():
			m.mu.Lock()
			m.t.Fatalf("%s: never happened; %d resets, %d events, revision %d", what, m.resets, m.events, m.rev)
		}
	}
}

// waitFor blocks until a key has a value.
func (m *memory) waitFor(key, value string) {
	m.t.Helper()
	m.wait(key+"="+value, func() bool { return m.keys[key] == value })
}

// mirrored is a mirror at work on prefixes of one root.
type mirrored struct {
	*mirror.Mirror
	root string
	stop func()
}

// runMirror runs a mirror of <root>a/ until the test ends.
func runMirror(t *testing.T, client *clientv3.Client, quiet, scan time.Duration, sinks ...mirror.Sink) mirrored {
	t.Helper()
	root := etcdtest.Root(t)
	m := mirror.New(newStore(t, client, root), quiet, scan)
	for i, sink := range sinks {
		m.Add(root+string(rune('a'+i))+"/", sink)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return mirrored{m, root, stop}
}

func put(t testing.TB, client *clientv3.Client, key, value string) int64 {
	t.Helper()
	resp, err := client.Put(within(t), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// compact forgets all history up to now, behind one more write elsewhere.
func compact(t testing.TB, client *clientv3.Client) {
	t.Helper()
	if _, err := client.Compact(within(t), put(t, client, etcdtest.Root(t)+"compacted", "")); err != nil {
		t.Fatal(err)
	}
}

func TestMirrorFollowsConcurrentWrites(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	mem := newMemory(t)
	m := runMirror(t, client, 0, 0, mem)
	prefix := m.root + "a/"
	put(t, client, m.root+"b/not-mirrored", "")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				key := fmt.Sprintf("%s%d", prefix, (w*7+i)%20)
				ops := []clientv3.Op{clientv3.OpPut(key, fmt.Sprint(w, i)), clientv3.OpPut(key+"x", fmt.Sprint(i))}
				if i%5 == 4 {
					ops = []clientv3.Op{clientv3.OpDelete(key)}
				}
				if _, err := client.Txn(within(t)).Then(ops...).Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	last := put(t, client, prefix+"last", "")
	mem.wait("the last write", func() bool { return mem.rev >= last })
	resp, err := client.Get(within(t), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, kv := range resp.Kvs {
		want[string(kv.Key)] = string(kv.Value)
	}
	if !maps.Equal(mem.keys, want) {
		t.Errorf("mirror and store differ: got %v, want %v", mem.keys, want)
	}
	if mem.resets != 1 {
		t.Errorf("listed %d times, want once", mem.resets)
	}
}

func TestMirrorSyncsAllPrefixesAndSingleKeys(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	put(t, client, root+"config", "1")
	put(t, client, root+"config2", "other")
	store := newStore(t, client, root)
	m := mirror.New(store, 0, 0)
	one, all := newMemory(t), newMemory(t)
	m.Add(root+"config", one)
	m.Add(root, all)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	done(t, "sync", m.Synced())
	if got := slices.Sorted(maps.Keys(one.keys)); !slices.Equal(got, []string{root + "config"}) {
		t.Errorf("single key: got %v", got)
	}
	if len(all.keys) != 2 {
		t.Errorf("prefix: got %v", all.keys)
	}
	put(t, client, root+"config", "2")
	put(t, client, root+"config2", "changed")
	one.waitFor(root+"config", "2")
	all.waitFor(root+"config2", "changed")
	cancel()
	wantErr(t, "run", <-ran, nil)
	if len(one.keys) != 1 {
		t.Errorf("single key: got %v", one.keys)
	}
}

func TestMirrorListsLargePrefixes(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	store := newStore(t, client, root)
	want := map[string]bool{}
	for i := range 10 {
		var ops []clientv3.Op
		for j := range 100 {
			key := fmt.Sprintf("%sa/%d", root, i*100+j)
			want[key] = true
			ops = append(ops, clientv3.OpPut(key, string(make([]byte, 500))))
		}
		if _, err := client.Txn(within(t)).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := store.List(within(t), root+"a/")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		delete(want, string(kv.Key))
	}
	if len(resp.Kvs) != 1000 || len(want) != 0 || resp.Header.Revision == 0 {
		t.Errorf("listed %d keys at revision %d, missed %d", len(resp.Kvs), resp.Header.Revision, len(want))
	}
}

// History that was compacted while the mirror was cut off cannot be watched: it
// lists again, and misses nothing.
func TestSurvives_32_CompactedBehindTheMirror(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t, etcdtest.Config{Proxies: true})
	client, direct := server.ProxiedClient(t), server.Client(t)
	mem := newMemory(t)
	m := runMirror(t, client, 0, 0, mem)
	key := m.root + "a/k"
	put(t, direct, key, "1")
	mem.waitFor(key, "1")
	for i := range 3 {
		value := fmt.Sprint("after ", i)
		server.Proxy(0).Refuse()
		put(t, direct, key, "missed")
		put(t, direct, key+"-gone", "")
		put(t, direct, key, value)
		if _, err := direct.Delete(within(t), key+"-gone"); err != nil {
			t.Fatal(err)
		}
		compact(t, direct)
		server.Proxy(0).Heal()
		mem.waitFor(key, value)
		mem.wait("another list", func() bool { return mem.resets == i+2 })
		if len(mem.keys) != 1 {
			t.Errorf("got %v", mem.keys)
		}
	}
}

// compactingSink has the history compacted right after the first list, before
// the watch that follows it.
type compactingSink struct {
	*memory
	once sync.Once
	then func()
}

func (c *compactingSink) Reset(kvs []*mvccpb.KeyValue, rev int64) {
	c.memory.Reset(kvs, rev)
	c.once.Do(c.then)
}

func TestSurvives_32_CompactedBetweenListAndWatch(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t, etcdtest.Config{})
	client := server.Client(t)
	mem := newMemory(t)
	root := etcdtest.Root(t)
	sink := &compactingSink{memory: mem, then: func() {
		put(t, client, root+"a/k", "missed")
		put(t, client, root+"a/k", "kept")
		compact(t, client)
	}}
	store := newStore(t, client, root)
	m := mirror.New(store, 0, 0)
	m.Add(root+"a/", sink)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	mem.waitFor(root+"a/k", "kept")
	mem.wait("another list", func() bool { return mem.resets == 2 })
	cancel()
	<-ran
}

func TestSurvives_33_ProgressNeverDropsEvents(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	mem := newMemory(t)
	// Asks for progress all the time, between events of this and other prefixes.
	m := runMirror(t, client, 20*time.Millisecond, 0, mem, newMemory(t))
	done(t, "sync", m.Synced())
	const n = 200
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range n / 4 {
				put(t, client, fmt.Sprintf("%sa/%d-%d", m.root, w, i), "")
				put(t, client, m.root+"elsewhere", "")
			}
		})
	}
	wg.Wait()
	mem.wait("all events", func() bool { return len(mem.keys) == n })
}
