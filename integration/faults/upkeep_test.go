package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

// compactedAt tells whether a revision can be read no more.
func (s *stage) compactedAt(t testing.TB, rev int64) bool {
	t.Helper()
	_, err := s.Client.Get(bounded(t), s.key(), clientv3.WithRev(rev))
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
	return err != nil
}

func (s *stage) write(t testing.TB) (rev int64) {
	t.Helper()
	resp, err := s.Client.Put(bounded(t), s.key(), "")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func TestCompact(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{})) // what it does, everybody sees
	first, second := s.write(t), s.write(t)
	s.Seen = func() int64 { return second }
	s.write(t)
	heal := inject(t, faults.Compact{Every: time.Millisecond}, s.Env)
	if !s.compactedAt(t, first) || s.compactedAt(t, second) {
		t.Error("it compacted to another revision than what was seen")
	}
	mend(t, heal)

	s.Seen = nil
	heal = inject(t, faults.Compact{Every: time.Millisecond}, s.Env)
	wantNotHere(t, faults.Compact{}, s.Env)
	rev := s.write(t)
	s.write(t)
	for ctx := bounded(t); !s.compactedAt(t, rev); { // it goes on
		if ctx.Err() != nil {
			t.Fatal("it compacted once only")
		}
	}
	mend(t, heal)
}

func TestDefragment(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}))
	big := make([]byte, 1<<20)
	for range 8 {
		if _, err := s.Client.Put(bounded(t), s.key(), string(big)); err != nil {
			t.Fatal(err)
		}
	}
	compact := inject(t, faults.Compact{}, s.Env)
	mend(t, compact)
	before := s.size(t)
	mend(t, inject(t, faults.Defragment{}, s.Env))
	// A compaction frees its pages a little later, so one round may be too early.
	for ctx := bounded(t); s.size(t) >= before; {
		if ctx.Err() != nil {
			t.Fatalf("the database did not shrink from %d bytes", before)
		}
		mend(t, inject(t, faults.Defragment{}, s.Env))
	}
}

func (s *stage) size(t testing.TB) int64 {
	t.Helper()
	st, err := s.Client.Status(bounded(t), s.Client.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	return st.DbSize
}

func TestNoSpace(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}))
	heal := inject(t, faults.NoSpace{}, s.Env)
	if err := <-s.put(t, "v"); !errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
		t.Errorf("put: got %v", err)
	}
	wantNotHere(t, faults.NoSpace{}, s.Env)
	mend(t, heal)
	if err := <-s.put(t, "v"); err != nil {
		t.Errorf("put: %v", err)
	}
}

// Whoever reads goes on beside a watch that does not.
func TestSlowWatch(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}))
	heal := inject(t, faults.SlowWatch{}, s.Env)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watch := s.Client.Watch(ctx, s.Root, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	const n, big = 200, 10 << 10
	for i := range n { // more than the server's buffers take
		if _, err := s.Client.Put(bounded(t), fmt.Sprint(s.Root, i), string(make([]byte, big))); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < n; {
		resp, ok := <-watch
		if !ok || resp.Err() != nil {
			t.Fatalf("the watch ended after %d events: %v", got, resp.Err())
		}
		got += len(resp.Events)
	}
	mend(t, heal)
}
