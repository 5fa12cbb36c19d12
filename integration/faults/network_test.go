package faults_test

import (
	"context"
	"net"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

func shared(t testing.TB) *etcdtest.Cluster { return etcdtest.Shared(t) }

func TestPause(t *testing.T) {
	t.Parallel()
	for _, reach := range []faults.Reach{faults.Endpoint, faults.Network, faults.Service} {
		s := newStage(t, shared(t))
		f := faults.Pause{Reach: reach}
		heal := inject(t, f, s.Env)
		s.silent(t)
		wantNotHere(t, f, s.Env) // all is borrowed
		mend(t, heal)
		s.serves(t)
		mend(t, inject(t, f, s.Env))
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	heal := inject(t, faults.Refuse{}, s.Env)
	s.silent(t)
	wantCut(t, s.Networks[0][0].Addr())
	mend(t, heal)
	s.serves(t)
}

// wantCut checks that a new connection ends at once.
func wantCut(t testing.TB, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, c)
}

func wantEnd(t testing.TB, c net.Conn) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); err == nil || ok && ne.Timeout() {
		t.Errorf("the connection was not cut: read %d bytes, %v", n, err)
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	watch := s.client.Watch(bounded(t), s.key())
	heal := inject(t, faults.Drop{}, s.Env)
	s.serves(t)
	mend(t, heal)
	if _, err := s.Client.Put(bounded(t), s.key(), "v"); err != nil {
		t.Fatal(err)
	}
	if resp := <-watch; len(resp.Events) != 1 { // the client's watch goes on by itself
		t.Errorf("got %+v", resp)
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	const late = 50 * time.Millisecond
	heal := inject(t, faults.Slow{By: late}, s.Env)
	began := time.Now()
	s.serves(t)
	if took := time.Since(began); took < 2*late {
		t.Errorf("an answer took %v, want %v at least", took, 2*late)
	}
	mend(t, heal)
	s.serves(t)
}

// put writes through the network, behind.
func (s *stage) put(t testing.TB, value string) (answer <-chan error) {
	t.Helper()
	ctx := bounded(t)
	ch := make(chan error, 1)
	go func() {
		_, err := s.client.Put(ctx, s.key(), value)
		ch <- err
	}()
	return ch
}

func (s *stage) value(t testing.TB) string {
	t.Helper()
	resp, err := s.Client.Get(bounded(t), s.key())
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestLoseAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	wantNotHere(t, faults.LoseAnswers{}, s.Env) // nobody asks
	s.serves(t)

	// The fault must be in force before the answer passes.
	s.Networks[0][0].PauseAnswers()
	answer := s.put(t, "applied")
	heal := inject(t, faults.LoseAnswers{}, s.Env)
	if got := s.value(t); got != "applied" {
		t.Errorf("the store has %q", got)
	}
	mend(t, heal)
	if err := <-answer; err == nil {
		t.Error("the answer was not lost")
	}
	s.serves(t)
}

func TestLate(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	wantNotHere(t, faults.Late{}, s.Env) // nobody asks
	s.serves(t)

	s.Networks[0][0].PauseRequests()
	answer := s.put(t, "late")
	heal := inject(t, faults.Late{}, s.Env)
	if err := <-answer; err == nil {
		t.Error("the sender was answered")
	}
	s.serves(t)
	if got := s.value(t); got != "" {
		t.Errorf("the store has %q already", got)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watch := s.Client.Watch(ctx, s.key(), clientv3.WithCreatedNotify())
	<-watch
	mend(t, heal)
	if resp := <-watch; len(resp.Events) != 1 || string(resp.Events[0].Kv.Value) != "late" {
		t.Errorf("got %+v", resp)
	}
}

func TestSwizzle(t *testing.T) {
	t.Parallel()
	s := newStage(t, shared(t))
	heal := inject(t, faults.Swizzle{}, s.Env)
	s.silent(t)
	wantNotHere(t, faults.Pause{}, s.Env)
	mend(t, heal)
	s.serves(t)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (faults.Swizzle{}).Inject(ctx, s.Env); err == nil {
		t.Error("it was injected although its context had ended")
	}
	s.serves(t)
}
