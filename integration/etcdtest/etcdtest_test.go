package etcdtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{Proxies: true}) }

// within turns a hang into a failure, nothing else.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, cl *clientv3.Client, key, val string) {
	t.Helper()
	if _, err := cl.Put(within(t), key, val); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, cl *clientv3.Client, key, want string) {
	t.Helper()
	resp, err := cl.Get(within(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != want {
		t.Fatalf("get %s: got %v, want %q", key, resp.Kvs, want)
	}
}

func TestSharedIsOneClusterWithRootsApart(t *testing.T) {
	c := etcdtest.Shared(t)
	if etcdtest.Shared(t) != c {
		t.Error("got two shared clusters")
	}
	a, b := etcdtest.Root(t), etcdtest.Root(t)
	if a == b {
		t.Errorf("got root %s twice", a)
	}
	t.Run("a b/ü", func(t *testing.T) {
		root := etcdtest.Root(t)
		if !strings.HasPrefix(root, "/t/TestShared") || !strings.HasSuffix(root, "/") || strings.Count(root, "/") != 3 {
			t.Errorf("got root %q, want three slashes and the test's name", root)
		}
	})
	put(t, c.Client(t), a+"k", "v")
	wantValue(t, c.ProxiedClient(t), a+"k", "v")
}

func TestNewEndsWithItsTest(t *testing.T) {
	var cl *clientv3.Client
	var member *etcdtest.Member
	t.Run("inner", func(t *testing.T) {
		c := etcdtest.New(t, etcdtest.Config{Verbose: false})
		cl, member = c.Client(t), c.Member(0)
		put(t, cl, "k", "v")
		lease, err := cl.Grant(within(t), 1)
		if err != nil || lease.TTL != 1 {
			t.Errorf("grant for 1 s: got %+v, %v", lease, err)
		}
	})
	if member.Server() != nil {
		t.Error("the member outlived its test")
	}
	if cl.Ctx().Err() == nil {
		t.Error("the client outlived its test")
	}
}

func TestLostAnswerOfAPut(t *testing.T) {
	c := etcdtest.Shared(t)
	key := etcdtest.Root(t) + "k"
	rec := &etcdtest.Recorder{}
	cl := c.ProxiedClient(t, rec.DialOptions()...)
	put(t, cl, key, "before")
	p := c.Proxy(0)
	p.PauseAnswers()
	done := make(chan error, 1)
	go func() {
		_, err := cl.Put(within(t), key, "after")
		done <- err
	}()
	if err := p.WaitAnswers(within(t), 1); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c.Client(t), key, "after")
	p.Drop()
	if err := <-done; err == nil {
		t.Error("put whose answer was lost: got nil, want an error")
	}
	p.Heal()
	wantValue(t, cl, key, "after")
	if got := rec.Count("Put"); got != 2 {
		t.Errorf("sent %d puts, want 2: clientv3 must not repeat a write", got)
	}
}

func TestLatePut(t *testing.T) {
	c := etcdtest.Shared(t)
	key := etcdtest.Root(t) + "k"
	cl, direct := c.ProxiedClient(t), c.Client(t)
	put(t, cl, key, "1")
	p := c.Proxy(0)
	p.PauseRequests()
	done := make(chan error, 1)
	go func() {
		_, err := cl.Put(within(t), key, "late")
		done <- err
	}()
	if err := p.WaitRequests(within(t), 1); err != nil {
		t.Fatal(err)
	}
	p.Sever()
	if err := <-done; err == nil {
		t.Error("severed put: got nil, want an error")
	}
	p.Heal()
	put(t, cl, key, "2")
	wantValue(t, direct, key, "2")
	w := direct.Watch(within(t), key, clientv3.WithCreatedNotify())
	<-w
	if err := p.Deliver(within(t)); err != nil {
		t.Fatal(err)
	}
	if ev := (<-w).Events; len(ev) != 1 || string(ev[0].Kv.Value) != "late" {
		t.Errorf("got events %v, want the late put", ev)
	}
	p.Drop()
}

func TestThreeMembersSurviveTheirLeader(t *testing.T) {
	c := etcdtest.New(t, etcdtest.Config{Members: 3, Proxies: true})
	cl := c.ProxiedClient(t)
	put(t, cl, "k", "1")
	old := c.Leader(t)
	old.Kill()
	put(t, etcdtest.NewClient(t, []string{c.Leader(t).Endpoint()}), "k", "2")
	if err := old.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	c.MoveLeader(t, old)
	if got := c.Leader(t); got != old {
		t.Errorf("got leader %s, want %s", got.Name(), old.Name())
	}
	wantValue(t, etcdtest.NewClient(t, []string{old.Endpoint()}), "k", "2")
}

func TestRecorderTellsWhatAClientSends(t *testing.T) {
	rec := &etcdtest.Recorder{}
	cl := etcdtest.Shared(t).Client(t, rec.DialOptions()...)
	root := etcdtest.Root(t)
	put(t, cl, root+"k", "v")
	wantValue(t, cl, root+"k", "v")
	if _, err := cl.Get(context.WithoutCancel(t.Context()), root); err != nil {
		t.Fatal(err)
	}
	// With its last watch clientv3 ends the stream instead of cancelling it.
	<-cl.Watch(within(t), root, clientv3.WithCreatedNotify())
	ctx, cancel := context.WithCancel(within(t))
	w := cl.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-w
	if err := cl.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	<-w
	cancel()
	for range w {
	}
	lease, err := cl.Grant(within(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.KeepAliveOnce(within(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	if err := rec.WaitAnswered(within(t), "LeaseKeepAlive", 1); err != nil {
		t.Fatal(err)
	}
	if err := rec.Wait(within(t), "Watch.cancel", 1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"Put": 1, "Range": 2, "LeaseGrant": 1, "Txn": 0,
		"Watch.create": 2, "Watch.progress": 1, "Watch.cancel": 1,
		"LeaseKeepAlive.open": 1, "LeaseKeepAlive": 1,
	} {
		if got := rec.Count(name); got != want {
			t.Errorf("%s: counted %d, want %d (all: %v)", name, got, want, rec.Counts())
		}
	}
	if got := rec.Unbounded(); len(got) != 1 || got["Range"] != 1 {
		t.Errorf("calls without deadline: got %v, want one Range", got)
	}
	rec.Reset()
	if got := rec.Counts(); len(got) != 0 {
		t.Errorf("after Reset: got %v", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := rec.Wait(ctx, "Put", 1); err == nil || !strings.Contains(err.Error(), "Put") {
		t.Errorf("wait with an ended ctx: got %v, want an error that names Put", err)
	}
}

func TestProxyWithoutProxiesSaysWhatToSet(t *testing.T) {
	c := etcdtest.New(t, etcdtest.Config{})
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "Config.Proxies") {
			t.Errorf("got panic %q, want one that names Config.Proxies", p)
		}
	}()
	c.Proxy(0)
}
