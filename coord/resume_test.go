package coord_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
)

// A session outlives the process that opened it, as long as somebody renews it.
func TestResumeSession(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	first := open(t, client, coord.SessionConfig{Root: root, TTL: 60 * time.Second, Identity: "script"})
	id, created := first.ID(), inside.Of(first).CreateRevision()
	if err := first.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.Err(); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("a session that was left ended with %v", err)
	}
	if err := first.Leave(within(t)); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("leaving twice: %v", err)
	}

	again := open(t, client, coord.SessionConfig{Root: root, Resume: id})
	wantAlive(t, again)
	if again.ID() != id || inside.Of(again).CreateRevision() != created || again.TTL() != 60*time.Second {
		t.Errorf("resumed %s at %d, TTL %v", again.ID(), inside.Of(again).CreateRevision(), again.TTL())
	}
	if _, err := again.Commit(within(t), nil, clientv3.OpPut(etcdtest.Root(t)+"x", "")); err != nil {
		t.Fatal(err)
	}
	lanes, err := client.Get(within(t), inside.Of(again).Store().Keys().LanesOf("script"), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || lanes.Count == 0 {
		t.Errorf("it writes in %d lanes of its identity, %v", lanes.Count, err)
	}
	if err := again.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	_, err = coord.OpenSession(within(t), client, coord.SessionConfig{Root: root, Resume: id})
	if !errors.Is(err, coord.ErrSessionLost) {
		t.Errorf("resuming a closed session: %v", err)
	}
}

func TestResumeRefusesWhatIsNoSession(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	if _, err := client.Put(within(t), root+"sessions/foreign", "x"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]error{"foreign": coord.ErrInvalid, "a/b": coord.ErrInvalid, "nobody.0": coord.ErrSessionLost} {
		if _, err := coord.OpenSession(within(t), client, coord.SessionConfig{Root: root, Resume: id}); !errors.Is(err, want) {
			t.Errorf("resume %q: got %v, want %v", id, err, want)
		}
	}
}

// A session is left while a lock is being acquired: no other process knows of that claim,
// so it is not left with the session.
func TestLeaveGivesUpWhatIsBeingAcquired(t *testing.T) {
	t.Parallel()
	plan, root := &etcdtest.Plan{}, etcdtest.Root(t)
	s := open(t, etcdtest.Shared(t).Client(t, plan.DialOptions()...), coord.SessionConfig{Root: root, TTL: 60 * time.Second})
	sent, answer := make(chan struct{}), make(chan struct{})
	plan.Set(func(c etcdtest.Call) etcdtest.Fate {
		if c.Puts("/locks/") {
			close(sent)
			return etcdtest.Fate{Hold: answer}
		}
		return etcdtest.Fate{}
	})
	acquired, left := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := coord.NewLock(s, "deploy").Acquire(within(t))
		acquired <- err
	}()
	done(t, "the claim is sent", sent)
	plan.Set(nil)
	go func() { left <- s.Leave(within(t)) }()
	wantErr(t, "acquire", <-acquired, coord.ErrUnknown)
	close(answer)
	wantErr(t, "leave", <-left, nil)
	other := open(t, etcdtest.Shared(t).Client(t), coord.SessionConfig{Root: root})
	h, err := coord.NewLock(other, "deploy").TryAcquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "release", h.Release(within(t)), nil)
}
