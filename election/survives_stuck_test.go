package election_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// A leader whose link is silent is in a call that ignores its context. It is told
// before its lease can have ended, the hook fires with which it may end the process,
// and when the call returns at last, what it writes is refused.
func TestSurvives_45_BlockedLeaderIsCutOff(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	s := newStage(t, cluster.Client(t))
	gate := make(chan struct{})
	told, stuck := make(chan time.Time, 1), make(chan struct{}, 1)
	late := make(chan error, 1)
	a := s.enterWith(cluster.ProxiedClient(t), func(ctx context.Context, term *election.Term) error {
		<-ctx.Done()
		select {
		case told <- time.Now():
		default: // a later term, while the test ends
			return nil
		}
		<-gate
		_, err := term.Commit(context.WithoutCancel(ctx), clientv3.OpPut("/work"+s.root, "late"))
		late <- err
		return err
	}, expires, func(c *election.Config) {
		c.Grace = 100 * time.Millisecond
		c.Hooks.Stuck = func(*election.Term) { stuck <- struct{}{} }
	})
	term := a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	over := make(chan time.Time, 1)
	watch := s.client.Watch(within(t), s.store.Keys().Session(term.Session()), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	<-watch
	go func() {
		<-watch
		over <- time.Now()
	}()
	cluster.Proxy(0).Pause()
	ended := receive(t, "the end of its context", told)
	receive(t, "the hook", stuck)
	next := b.leads()
	if lapsed := receive(t, "the lease's end", over); !ended.Before(lapsed) {
		t.Errorf("told %v after its lease was over", ended.Sub(lapsed))
	}
	_, err := next.Commit(within(t), clientv3.OpPut("/work"+s.root, "good"))
	must(t, err)
	cluster.Proxy(0).Heal()
	close(gate)
	wantErr(t, "the late write", receive(t, "the late write's answer", late), coord.ErrFenced)
	resp, err := s.client.Get(within(t), "/work"+s.root)
	must(t, err)
	if kv := resp.Kvs[0]; string(kv.Value) != "good" || kv.Version != 1 {
		t.Errorf("got %q, version %d", kv.Value, kv.Version)
	}
}

// Nobody reads what an observer tells, for many terms: nothing is logged, nothing
// piles up, and whoever reads then hears of the latest at once.
func TestSurvives_29_NobodyReadsAnObserver(t *testing.T) {
	s := sharedStage(t)
	core, logs := observer.New(zapcore.DebugLevel)
	e, err := election.New(s.client, election.Config{Name: "e", Root: s.root, Logger: zap.New(core)})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	states := e.Observe(ctx)
	defer func() {
		stop()
		for range states {
		}
	}()
	a := s.enter(s.client)
	term := a.leads()
	for range 30 {
		must(t, a.Resign(within(t)))
		term = a.leads()
	}
	reads := 0
	for st := range states {
		if reads++; st.Status == election.Leader && st.Token == term.Token() {
			break
		}
		// What was offered in the moment of the first read may be older.
		if reads > 3 {
			t.Fatalf("read %d states, the last one %+v, and not of token %s", reads, st, term.Token())
		}
	}
	if n := logs.Len(); n > 0 {
		t.Errorf("%d lines were logged, such as %v", n, logs.All()[0])
	}
}
