package coord_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/line"
)

// withPassword turns authentication on and returns a function that makes clients
// which log in as root.
func withPassword(t *testing.T, cluster *etcdtest.Cluster) func(opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	admin := cluster.Client(t)
	_, err := admin.UserAdd(within(t), "root", "pw")
	must(t, err)
	_, err = admin.RoleAdd(within(t), "root")
	must(t, err)
	_, err = admin.UserGrantRole(within(t), "root", "root")
	must(t, err)
	_, err = admin.AuthEnable(within(t))
	must(t, err)
	return func(opts ...grpc.DialOption) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: cluster.ProxiedEndpoints(), Username: "root", Password: "pw", DialOptions: opts, Logger: zap.NewNop(),
		})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
}

// Each login costs the server a bcrypt and a write. Renewals share one stream, so
// they log in once per stream, however many there are; and a connection that is lost
// costs one login for each stream that is opened again.
func TestSurvives_21_RenewalsDoNotLogInAgain(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	login := withPassword(t, cluster)
	rec := &etcdtest.Recorder{}
	// What a stream's first renewal may take depends on the TTL, and it logs in.
	s := open(t, login(rec.DialOptions()...), coord.SessionConfig{TTL: time.Minute})
	must(t, rec.Wait(within(t), "Watch.create", 1)) // its own key's: the last stream that it opens
	opened := func(c map[string]int) int { return c["Watch.open"] + c["LeaseKeepAlive.open"] }
	if c := rec.Counts(); c["Authenticate"] > opened(c)+1 { // and one for the unary calls
		t.Errorf("opening cost %d logins with %d streams", c["Authenticate"], opened(c))
	}
	rec.Reset()
	for range 20 {
		must(t, s.RenewNow())
	}
	if c := rec.Counts(); c["LeaseKeepAlive"] < 20 || c["Authenticate"] != 0 {
		t.Errorf("%d renewals cost %d logins", c["LeaseKeepAlive"], c["Authenticate"])
	}
	rec.Reset()
	cluster.Proxy(0).Refuse() // cuts every connection
	cluster.Proxy(0).Heal()
	for s.RenewNow() != nil {
		wantAlive(t, s)
		must(t, within(t).Err())
	}
	for range 20 {
		must(t, s.RenewNow())
	}
	if c := rec.Counts(); c["Authenticate"] > opened(c)+1 {
		t.Errorf("a reconnect cost %d logins with %d streams", c["Authenticate"], opened(c))
	}
	wantAlive(t, s)
}

// A member that is cut off from its peers still accepts connections and keeps its
// watches open, and sends nothing on them: the mirror leaves it, whichever it is,
// and events come again from another.
func TestSurvives_34_MemberWithoutItsPeers(t *testing.T) {
	t.Parallel()
	const quiet = 500 * time.Millisecond
	server := etcdtest.New(t, etcdtest.Config{Members: 3})
	leader := server.Leader(t)
	for _, member := range server.Members() {
		if member == leader {
			continue // cut off, it would only be replaced: see 07
		}
		// Two endpoints: this one is half of all streams.
		eps := []string{member.Endpoint(), leader.Endpoint()}
		direct := etcdtest.NewClient(t, []string{leader.Endpoint()})
		var mems []*memory
		var keys []string
		for range 4 {
			mem := newMemory(t)
			m := runMirror(t, etcdtest.NewClient(t, eps), quiet, 0, mem)
			key := m.root + "a/k"
			put(t, direct, key, "before")
			mem.waitFor(key, "before")
			mems, keys = append(mems, mem), append(keys, key)
		}
		member.Cut()
		for i, mem := range mems {
			put(t, direct, keys[i], "cut")
			mem.waitFor(keys[i], "cut")
		}
		member.Mend()
	}
}

// isolated is a session of a client that knows one member only, which is then cut
// off from its peers, and a client of the majority.
type isolated struct {
	s        *coord.Session
	hold     *coord.Hold
	majority *clientv3.Client
	member   *etcdtest.Member
}

func isolate(t *testing.T) isolated {
	t.Helper()
	server := etcdtest.New(t, etcdtest.Config{Members: 3})
	member := server.Leader(t) // a leader believes in itself the longest
	var others []string
	for _, m := range server.Members() {
		if m != member {
			others = append(others, m.Endpoint())
		}
	}
	s := open(t, etcdtest.NewClient(t, []string{member.Endpoint()}), coord.SessionConfig{TTL: time.Minute})
	hold, err := coord.NewLock(s, "l").Acquire(within(t))
	must(t, err)
	must(t, hold.Verify(within(t)))
	member.Cut()
	t.Cleanup(member.Mend)
	return isolated{s, hold, etcdtest.NewClient(t, others), member}
}

// What an isolated member says is believed by nobody: a hold is not verified, and a
// state is not read, neither as held nor as free; not even once the majority has
// given the lock to another. The CLI says the same: `leasectl status` has a test of that number too.
func TestSurvives_50_IsolatedMemberIsNotBelieved(t *testing.T) {
	t.Parallel()
	i := isolate(t)
	check := func() {
		t.Helper()
		for name, ask := range map[string]func(context.Context) error{
			"verify": i.hold.Verify,
			"state":  func(ctx context.Context) error { _, err := coord.NewLock(i.s, "l").State(ctx); return err },
			"names":  func(ctx context.Context) error { _, err := line.LockNames(ctx, inside.Of(i.s).Store()); return err },
			"get":    func(ctx context.Context) error { _, err := inside.Of(i.s).Store().Get(ctx, keyOf(i.s)); return err },
			"read": func(ctx context.Context) error {
				_, err := inside.Of(i.s).Store().Read(ctx, clientv3.OpGet(keyOf(i.s)))
				return err
			},
			"list": func(ctx context.Context) error {
				_, err := inside.Of(i.s).Store().List(ctx, inside.Of(i.s).Store().Keys().Sessions())
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := ask(ctx); err == nil {
				t.Errorf("%s: an isolated member was believed", name)
			}
			cancel()
		}
	}
	check()
	// The majority takes the lock away.
	root := inside.Of(i.s).Store().Keys().Root()
	_, err := i.majority.Revoke(within(t), i.s.Lease())
	must(t, err)
	other := open(t, i.majority, coord.SessionConfig{Root: root, TTL: time.Minute})
	h, err := coord.NewLock(other, "l").Acquire(within(t))
	must(t, err)
	must(t, h.Verify(within(t)))
	check()
	if h.Token() <= i.hold.Token() {
		t.Errorf("token %s does not rise over %s", h.Token(), i.hold.Token())
	}
	must(t, h.Release(within(t)))
}

// Reads that etcd does not answer return by themselves, without a context that ends,
// and as errors: never as "there is nothing".
func TestSurvives_52_ReadsOfASilentEtcdEndAsErrors(t *testing.T) {
	t.Parallel()
	server := etcdtest.Shared(t)
	root := etcdtest.Root(t)
	holder := open(t, server.Client(t), coord.SessionConfig{Root: root, TTL: time.Minute})
	h, err := coord.NewLock(holder, "l").Acquire(within(t))
	must(t, err)
	proxies, eps := proxyBefore(t, server.Endpoints()[0])
	store := newStore(t, etcdtest.NewClient(t, eps), root)
	if st, err := line.LockState(within(t), store, "l"); err != nil || st.Owner != holder.ID() {
		t.Fatalf("before: got %+v, %v", st, err)
	}
	proxies[0].Pause()
	const bound = 20 * time.Second // 3 s each, on a busy machine
	for name, ask := range map[string]func(context.Context) error{
		"lock state":   func(ctx context.Context) error { _, err := line.LockState(ctx, store, "l"); return err },
		"leader state": func(ctx context.Context) error { _, err := line.LeadershipState(ctx, store, "e"); return err },
		"lock names":   func(ctx context.Context) error { _, err := line.LockNames(ctx, store); return err },
		"get":          func(ctx context.Context) error { _, err := store.Get(ctx, root+"meta"); return err },
		"list":         func(ctx context.Context) error { _, err := store.List(ctx, root+"locks/"); return err },
		"usage":        func(ctx context.Context) error { _, _, err := store.Usage(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			err := ask(context.WithoutCancel(t.Context()))
			if took := time.Since(began); err == nil || took > bound {
				t.Errorf("returned %v after %v", err, took)
			}
		})
	}
	t.Cleanup(func() {
		proxies[0].Heal()
		must(t, h.Release(context.WithoutCancel(t.Context())))
	})
}

// Whatever a session puts for as long as it lives hangs on its lease: see 25 for the
// keys. Here for what is put again: a registration that changes.
func TestSurvives_25_OpsOfACallerCannotDetachALease(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	s := open(t, client, coord.SessionConfig{TTL: time.Minute})
	for i, op := range []clientv3.Op{
		clientv3.OpPut(keyOf(s), "detached"),
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(keyOf(s), "detached")}, nil),
		clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpDelete(keyOf(s))}),
	} {
		_, err := s.Commit(within(t), nil, op)
		wantErr(t, strconv.Itoa(i), err, coord.ErrInvalid)
	}
	resp, err := client.Get(within(t), keyOf(s))
	must(t, err)
	if kv := resp.Kvs[0]; kv.Lease != int64(s.Lease()) || kv.Version != 1 {
		t.Errorf("the session's key is at version %d, on lease %x, want %x", kv.Version, kv.Lease, s.Lease())
	}
	wantAlive(t, s)
}

// Requests that etcd would refuse are refused before they are sent, with what is
// accepted; the largest that are accepted do work.
func TestSurvives_40_TooManyOpsAndTooLarge(t *testing.T) {
	t.Parallel()
	rec := &etcdtest.Recorder{}
	client := etcdtest.Shared(t).Client(t, rec.DialOptions()...)
	s := open(t, client, coord.SessionConfig{TTL: time.Minute})
	data := etcdtest.Root(t)
	puts := func(n, size int) (ops []clientv3.Op) {
		value := string(make([]byte, size))
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint(data, i), value))
		}
		return ops
	}
	_, err := s.Commit(within(t), nil, puts(1, 1)...) // opens the lane
	must(t, err)
	before := rec.Count("Txn")
	for name, ops := range map[string][]clientv3.Op{"129 ops": puts(129, 1), "61 ops": puts(61, 1), "2 MiB": puts(1, 2<<20), "2 MiB in 16": puts(16, 128<<10)} {
		_, err := s.Commit(within(t), nil, ops...)
		wantErr(t, name, err, coord.ErrInvalid)
	}
	if got := rec.Count("Txn"); got != before {
		t.Errorf("%d requests were sent that etcd would refuse", got-before)
	}
	for name, ops := range map[string][]clientv3.Op{"60 ops": puts(60, 1), "900 KiB": puts(1, 900<<10)} {
		_, err := s.Commit(within(t), nil, ops...)
		wantErr(t, name, err, nil)
	}
}
