package coord_test

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// proxied is a session behind a proxy of its own, with a lock that it holds and
// a lane that is open.
type proxied struct {
	proxy   *etcdtest.Proxy
	direct  *clientv3.Client
	session *coord.Session
	lock    coord.Fence
	effect  string
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	p := &proxied{proxy: cluster.Proxy(0), direct: cluster.Client(t)}
	root := etcdtest.Root(t)
	p.effect = root + "effect"
	var err error
	p.session, err = coord.OpenSession(in(t), cluster.ProxiedClient(t), coord.SessionConfig{Root: root + "leasekit/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.proxy.Heal()
		if err := p.session.Close(context.Background()); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	p.lock = coord.Fence{Key: root + "lock", Nonce: midNonce}
	p.lock.Token = putRecord(t, p.direct, p.lock.Key, midNonce)
	if err := p.commit(t); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *proxied) commit(t *testing.T) error {
	_, err := p.session.Commit(in(t), []coord.Fence{p.lock}, clientv3.OpPut(p.effect, ""))
	return err
}

// started commits while the proxy does as it was told.
func (p *proxied) started(t *testing.T) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.commit(t) }()
	return done
}

// wantEffects checks how often the effect was put: its version counts.
func (p *proxied) wantEffects(t *testing.T, want int64) {
	t.Helper()
	resp, err := p.direct.Get(in(t), p.effect)
	if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Version != want {
		t.Fatalf("effect: got %v %v, want version %d", resp, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The connection breaks when the commit was applied and not yet answered.
func TestCommitWhoseAnswerTheNetworkLoses(t *testing.T) {
	p := newProxied(t)
	for n := int64(2); n <= 4; n++ {
		p.proxy.PauseAnswers()
		done := p.started(t)
		must(t, p.proxy.WaitAnswers(in(t), 1))
		p.wantEffects(t, n) // applied already
		p.proxy.Drop()
		p.proxy.Heal()
		must(t, <-done)
		p.wantEffects(t, n)
	}
}

// The request itself is held up in the network and arrives when its repeat is
// long answered.
func TestCommitWhoseRequestArrivesLate(t *testing.T) {
	for _, movedOn := range []bool{false, true} {
		t.Run(fmt.Sprintf("lane moved on %v", movedOn), func(t *testing.T) {
			p := newProxied(t)
			p.proxy.PauseRequests()
			done := p.started(t)
			must(t, p.proxy.WaitRequests(in(t), 1))
			p.proxy.Sever()
			p.proxy.Heal()
			must(t, <-done)
			want := int64(2)
			if movedOn {
				must(t, p.commit(t))
				want++
			}
			p.wantEffects(t, want)
			applied := p.raftIndex(t)
			must(t, p.proxy.Deliver(in(t)))
			// It was proposed like any other request: wait until it was judged.
			for ctx := in(t); p.raftIndex(t) == applied; {
				must(t, ctx.Err())
			}
			p.wantEffects(t, want)
		})
	}
}

// raftIndex counts what was proposed to etcd, refused Txns included.
func (p *proxied) raftIndex(t *testing.T) uint64 {
	t.Helper()
	st, err := p.direct.Status(in(t), p.direct.Endpoints()[0])
	must(t, err)
	return st.RaftAppliedIndex
}

// The server is gone for a while, with commits under way.
func TestCommitAcrossARestart(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{})
	root := etcdtest.Root(t)
	s, err := coord.OpenSession(in(t), cluster.Client(t), coord.SessionConfig{Root: root + "leasekit/"})
	must(t, err)
	defer func() { must(t, s.Close(context.Background())) }()
	const commits = 40
	done := make(chan error, commits)
	for n := range commits {
		go func() {
			_, err := s.Commit(in(t), nil, clientv3.OpPut(fmt.Sprintf("%s%d", root, n), ""))
			done <- err
		}()
		if n == commits/2 {
			cluster.Member(0).Kill()
		}
	}
	must(t, cluster.Member(0).Restart(in(t)))
	for range commits {
		must(t, <-done)
	}
	cl := cluster.Client(t)
	for n := range commits {
		resp, err := cl.Get(in(t), fmt.Sprintf("%s%d", root, n))
		must(t, err)
		if len(resp.Kvs) != 1 || resp.Kvs[0].Version != 1 {
			t.Errorf("commit %d: got %v, want applied once", n, resp.Kvs)
		}
	}
}
