package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

func (s *stage) session(t testing.TB, cfg coord.SessionConfig) *coord.Session {
	t.Helper()
	cfg.Root = s.Root
	session, err := coord.OpenSession(bounded(t), s.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return session
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	wantNotHere(t, faults.Revoke{}, s.Env)
	session := s.session(t, coord.SessionConfig{TTL: time.Hour})
	mend(t, inject(t, faults.Revoke{}, s.Env))
	select {
	case <-session.Done():
	case <-bounded(t).Done():
		t.Error("the session goes on")
	}
}

func TestStepClock(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	wantNotHere(t, faults.StepClock{By: time.Hour}, s.Env)
	clock := faults.NewClock()
	s.Clocks = []*faults.Clock{clock}
	session := s.session(t, coord.SessionConfig{TTL: time.Minute, Clock: clock.Read})
	heal := inject(t, faults.StepClock{By: -time.Hour}, s.Env)
	if _, wall := clock.Read(); time.Until(wall) > -50*time.Minute {
		t.Errorf("the clock shows %v", wall)
	}
	if session.Remaining() == 0 {
		t.Error("a step back ended the session")
	}
	wantNotHere(t, faults.StepClock{By: time.Hour}, s.Env)
	mend(t, heal)

	heal = inject(t, faults.StepClock{By: time.Hour}, s.Env)
	if !errors.Is(session.Err(), coord.ErrSessionLost) {
		t.Errorf("the session: %v, want it lost", session.Err())
	}
	mend(t, heal)
}

func TestExpireTokens(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, etcdtest.Config{})
	s := newStage(t, c)
	wantNotHere(t, faults.ExpireTokens{}, s.Env)
	ctx := bounded(t)
	for _, step := range []func() error{
		func() error { _, err := s.Client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := s.Client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := s.Client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	var calls etcdtest.Recorder
	root := authClient(t, c, "root", calls.DialOptions()...)
	s.Env.Client, s.User, s.Password = root, "root", "secret"
	if _, err := root.Put(ctx, s.key(), "before"); err != nil {
		t.Fatal(err)
	}
	before := calls.Count("Authenticate")
	mend(t, inject(t, faults.ExpireTokens{}, s.Env))
	if _, err := root.Put(ctx, s.key(), "after"); err != nil {
		t.Fatal(err)
	}
	if after := calls.Count("Authenticate"); after == before {
		t.Error("the token was still good")
	}
	mend(t, inject(t, faults.SlowWatch{}, s.Env)) // it logs in
	mend(t, inject(t, faults.NoSpace{}, s.Env))
}

// authClient returns the client of a user whose password is secret.
func authClient(t testing.TB, c *etcdtest.Cluster, user string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints(), Username: user, Password: "secret", Logger: zap.NewNop(), DialOptions: opts,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}
