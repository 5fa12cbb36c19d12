package coord_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
)

func TestOpenSession(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	before := time.Now()
	s := open(t, client, coord.SessionConfig{Root: root, TTL: 5 * time.Second, Identity: "host.example/a"})
	wantAlive(t, s)
	if got := s.Remaining(); got <= 0 || got > 4500*time.Millisecond {
		t.Errorf("got %v remaining of a TTL of 5s, want less than its margin allows", got)
	}
	identity, hex, _ := strings.Cut(s.ID(), ".")
	if identity != "host%2Eexample%2Fa" || len(hex) != 16 {
		t.Errorf("got id %s", s.ID())
	}
	resp, err := client.Get(within(t), keyOf(s))
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("session key: got %v, %v", resp, err)
	}
	kv := resp.Kvs[0]
	if kv.Lease != int64(s.Lease()) || kv.CreateRevision != inside.Of(s).CreateRevision() {
		t.Errorf("got lease %x, create revision %d, want %x, %d", kv.Lease, kv.CreateRevision, s.Lease(), inside.Of(s).CreateRevision())
	}
	var record struct {
		W, ID, Identity string
		TTL             int64     `json:"ttl_seconds"`
		Opened          time.Time `json:"opened_at"`
	}
	if err := json.Unmarshal(kv.Value, &record); err != nil || !strings.HasPrefix(string(kv.Value), `{"w":"`) {
		t.Fatalf("record %s: %v", kv.Value, err)
	}
	if record.ID != s.ID() || record.Identity != "host.example/a" || record.TTL != 5 || record.Opened.Before(before.Add(-time.Second)) || len(record.W) != 16 {
		t.Errorf("got record %s", kv.Value)
	}
	if meta, err := client.Get(within(t), root+"meta"); err != nil || len(meta.Kvs) != 1 || string(meta.Kvs[0].Value) != `{"schema":1}` {
		t.Errorf("meta: got %v, %v", meta, err)
	}
}

func TestOpenSessionRefusesBadInput(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	for name, cfg := range map[string]coord.SessionConfig{
		"short TTL": {TTL: time.Millisecond}, "long TTL": {TTL: 48 * time.Hour}, "identity": {Identity: "a\x00"}, "root": {Root: "/"},
	} {
		if _, err := coord.OpenSession(within(t), client, cfg); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	_, err := coord.OpenSession(within(t), nil, coord.SessionConfig{})
	wantErr(t, "no client", err, coord.ErrInvalid)
}

func TestOpenSessionRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	if _, err := client.Put(within(t), root+"meta", `{"schema":2}`); err != nil {
		t.Fatal(err)
	}
	_, err := coord.OpenSession(within(t), client, coord.SessionConfig{Root: root})
	wantErr(t, "newer schema", err, coord.ErrInvalid)
	resp, err := client.Get(within(t), root+"sessions/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("left behind: %v, %v", resp.Kvs, err)
	}
}

func TestOpenSessionReturnsByItsContext(t *testing.T) {
	t.Parallel()
	proxies, eps := proxyBefore(t, etcdtest.Shared(t).Endpoints()[0])
	proxies[0].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := coord.OpenSession(ctx, etcdtest.NewClient(t, eps), coord.SessionConfig{})
	wantErr(t, "silent server", err, context.DeadlineExceeded)
	if got := time.Since(began); got > 5*time.Second {
		t.Errorf("returned after %v", got)
	}
}

// A session must count itself lost before the server can delete its key, at
// whatever moment of its renewals the link goes silent.
func TestSurvives_04_LostBeforeTheServerDeletesTheKey(t *testing.T) {
	t.Parallel()
	const phases, ttl = 20, 2 * time.Second
	server := etcdtest.Shared(t)
	direct := server.Client(t)
	for i := range phases {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			proxies, eps := proxyBefore(t, server.Endpoints()[0])
			rec := &etcdtest.Recorder{}
			s := openPatiently(t, etcdtest.NewClient(t, eps, rec.DialOptions()...), coord.SessionConfig{TTL: ttl})
			deleted := deletion(t, direct, keyOf(s))
			lost := make(chan time.Time, 1)
			go func() { <-s.Done(); lost <- time.Now() }()
			// On a busy machine it may be lost even before: that counts too.
			alive, cancel := s.Context(within(t))
			defer cancel()
			_ = rec.WaitAnswered(alive, "LeaseKeepAlive", 2)
			<-time.After(ttl / 4 * time.Duration(i) / phases) // the phase, not a wait for something
			proxies[0].Pause()
			lostAt, deletedAt := <-lost, <-deleted
			proxies[0].Heal() // for a quick end
			if !lostAt.Before(deletedAt) {
				t.Errorf("phase %d of %d: lost %v after the server had deleted the key", i, phases, lostAt.Sub(deletedAt))
			}
			wantErr(t, "silent link", s.Err(), coord.ErrSessionLost)
		})
	}
}

func TestSurvives_05_OneOfThreeEndpointsSilent(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t, etcdtest.Config{Members: 3, Proxies: true})
	recs, sessions := make([]etcdtest.Recorder, 9), make([]*coord.Session, 9)
	for i := range sessions { // some of them have their stream on the endpoint that goes silent
		sessions[i] = open(t, server.ProxiedClient(t, recs[i].DialOptions()...), coord.SessionConfig{TTL: 12 * time.Second})
	}
	server.Proxy(0).Pause()
	for i := range recs {
		recs[i].Reset()
	}
	for i, s := range sessions {
		// One may have been answered before the silence. What is answered in it comes from another endpoint.
		if err := recs[i].WaitAnswered(within(t), "LeaseKeepAlive", 3); err != nil {
			t.Error(err)
		}
		wantAlive(t, s)
	}
	server.Proxy(0).Heal()
}

// Revocation races with renewals, which may be answered well after it.
func TestSurvives_08_RevokedWhileRenewing(t *testing.T) {
	server := etcdtest.Shared(t)
	client, direct := server.Client(t), server.Client(t)
	root := etcdtest.Root(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 250 {
				// Renewals by itself are 15 s apart: only what is tested can end it.
				s, err := coord.OpenSession(within(t), client, coord.SessionConfig{Root: root, TTL: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				renewed := make(chan struct{})
				go func() {
					defer close(renewed)
					for s.Err() == nil {
						_ = s.RenewNow()
					}
				}()
				if _, err := direct.Revoke(within(t), s.Lease()); err != nil {
					t.Error(err)
				}
				done(t, "the end of a revoked session", s.Done())
				wantErr(t, "revoked", s.Err(), coord.ErrSessionLost)
				<-renewed
				if err := s.Close(within(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOwnKeyDeletedEndsTheSession(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	s := open(t, client, coord.SessionConfig{TTL: time.Minute})
	work, cancel := s.Context(t.Context())
	defer cancel()
	if _, err := client.Delete(within(t), keyOf(s)); err != nil {
		t.Fatal(err)
	}
	done(t, "the end of a session without key", work.Done())
	wantErr(t, "cause", context.Cause(work), coord.ErrSessionLost)
}

// Without a word from the watch, whose connection is dead, the deleted key is
// found when renewals have stumbled; the new watch goes on from there.
func TestOwnKeyIsLookedAtWhenInDoubt(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	rec := &etcdtest.Recorder{}
	s := open(t, etcdtest.Shared(t).Client(t, rec.DialOptions()...), coord.SessionConfig{TTL: time.Minute})
	if err := rec.Wait(within(t), "Watch.create", 1); err != nil {
		t.Fatal(err)
	}
	s.Doubt()
	if err := rec.Wait(within(t), "Watch.create", 2); err != nil {
		t.Fatal(err)
	}
	wantAlive(t, s)
	if _, err := client.Delete(within(t), keyOf(s)); err != nil {
		t.Fatal(err)
	}
	done(t, "the end of a session without key", s.Done())
}

func TestSurvives_26_LeaderMovedAndKilled(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t, etcdtest.Config{Members: 3})
	rec := &etcdtest.Recorder{}
	s := open(t, server.Client(t, rec.DialOptions()...), coord.SessionConfig{TTL: 5 * time.Second})
	renewedAgain := func() {
		t.Helper()
		rec.Reset()
		if err := rec.WaitAnswered(within(t), "LeaseKeepAlive", 1); err != nil {
			t.Fatal(err)
		}
		wantAlive(t, s)
	}
	for i := range 7 {
		leader := server.Leader(t)
		for _, m := range server.Members() {
			if m != leader {
				server.MoveLeader(t, m)
				break
			}
		}
		if i%2 == 0 {
			renewedAgain()
		}
	}
	for range 3 {
		leader := server.Leader(t)
		leader.Kill()
		server.Leader(t)
		renewedAgain()
		if err := leader.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	renewedAgain()
}

func TestSurvives_27_RestartsAndLostConnections(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t, etcdtest.Config{Proxies: true})
	rec := &etcdtest.Recorder{}
	s := open(t, server.ProxiedClient(t, rec.DialOptions()...), coord.SessionConfig{TTL: 10 * time.Second})
	renewedAgain := func() {
		t.Helper()
		rec.Reset()
		if err := rec.WaitAnswered(within(t), "LeaseKeepAlive", 1); err != nil {
			t.Fatal(err)
		}
		wantAlive(t, s)
	}
	for range 20 {
		server.Proxy(0).PauseAnswers()
		answer := make(chan error, 1)
		go func() { answer <- s.RenewNow() }()
		if err := server.Proxy(0).WaitHeld(within(t), 1); err != nil {
			t.Fatal(err)
		}
		server.Proxy(0).Drop() // what was held is lost, with the connection
		server.Proxy(0).Heal()
		for err := <-answer; err != nil; err = s.RenewNow() {
			if errors.Is(err, coord.ErrSessionLost) {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		server.Member(0).Stop()
		if err := server.Member(0).Restart(within(t)); err != nil {
			t.Fatal(err)
		}
		renewedAgain()
	}
}

func TestSurvives_39_HeartbeatsWriteNothing(t *testing.T) {
	server := etcdtest.New(t, etcdtest.Config{})
	client := server.Client(t)
	s := open(t, client, coord.SessionConfig{TTL: 20 * time.Second})
	before := revision(t, client)
	const n = 10_000
	for good := 0; good < n; {
		err := s.RenewNow()
		switch {
		case err == nil:
			good++
		case s.Err() != nil:
			t.Fatal(err)
		}
	}
	if got := revision(t, client); got != before {
		t.Errorf("%d renewals took the store from revision %d to %d", n, before, got)
	}
}

func TestSurvives_53_CloseThroughASilentLink(t *testing.T) {
	t.Parallel()
	server := etcdtest.Shared(t)
	direct := server.Client(t)
	proxies, eps := proxyBefore(t, server.Endpoints()[0])
	s := open(t, etcdtest.NewClient(t, eps), coord.SessionConfig{TTL: 5 * time.Second})
	if _, err := s.Commit(within(t), nil, clientv3.OpPut(etcdtest.Root(t)+"x", "")); err != nil { // so that it has lanes
		t.Fatal(err)
	}
	deleted := deletion(t, direct, keyOf(s))
	proxies[0].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	err := s.Close(ctx)
	wantErr(t, "close", err, context.DeadlineExceeded)
	if got := time.Since(began); got > 2*time.Second {
		t.Errorf("close with a ctx of 1s returned after %v", got)
	}
	wantErr(t, "after close", s.Err(), coord.ErrClosed)
	<-deleted
}

func TestCloseDeletesTheKey(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	s := open(t, client, coord.SessionConfig{})
	fence := func() error {
		resp, err := client.Txn(within(t)).If(s.Guard()).Then(clientv3.OpPut(etcdtest.Root(t)+"x", "")).Commit()
		if err == nil && !resp.Succeeded {
			err = coord.ErrRefused
		}
		return err
	}
	wantErr(t, "guard of a live session", fence(), nil)
	if err := s.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "guard of a closed session", fence(), coord.ErrRefused)
	resp, err := client.Get(within(t), keyOf(s))
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("after close: got %v, %v", resp.Kvs, err)
	}
}

func TestMemberOnARealServer(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	m := coord.NewSessionKeeper(client, coord.SessionConfig{Root: etcdtest.Root(t), TTL: time.Minute, Identity: "m"})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	var old *coord.Session
	for i := range 4 {
		s, err := m.Session(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if s == old || s.Err() != nil {
			t.Errorf("incarnation %d: got session %s, %v, after %v", i, s.ID(), s.Err(), old)
		}
		old = s
		if _, err := client.Revoke(within(t), s.Lease()); err != nil {
			t.Fatal(err)
		}
		done(t, "the end of a revoked session", s.Done())
	}
	s, err := m.Session(within(t))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	wantErr(t, "run", <-ran, nil)
	wantErr(t, "last session", s.Err(), coord.ErrClosed)
	if resp, err := client.Get(within(t), inside.Of(s).Store().Keys().Sessions(), clientv3.WithPrefix()); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("left behind: %v, %v", resp.Kvs, err)
	}
}
