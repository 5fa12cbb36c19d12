package election_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/line"
)

// within turns a hang into a failure, nothing else.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// stage is one election, "e", and what the test itself looks at it with.
type stage struct {
	t      *testing.T
	root   string
	client *clientv3.Client
	store  *etcdkv.Store
}

func newStage(t *testing.T, client *clientv3.Client) *stage {
	t.Helper()
	t.Parallel()
	root := etcdtest.Root(t)
	store, err := etcdkv.NewStore(client, root, nil)
	must(t, err)
	return &stage{t: t, root: root, client: client, store: store}
}

func sharedStage(t *testing.T) *stage { return newStage(t, etcdtest.Shared(t).Client(t)) }

// actor is one candidate and its terms.
type actor struct {
	*election.Elector
	s     *stage
	terms chan *election.Term // one for each begun
	ends  chan error          // the cause of each ended
	stop  context.CancelFunc
	done  chan error // what Run returned
}

// expires is for a candidate whose lease the test waits for. That of any other outlasts a machine that stands still.
func expires(c *election.Config) { c.TTL = 5 * time.Second }

// enter starts a candidate whose fn waits for its context.
func (s *stage) enter(client *clientv3.Client, change ...func(*election.Config)) *actor {
	s.t.Helper()
	return s.enterWith(client, func(ctx context.Context, _ *election.Term) error {
		<-ctx.Done()
		return ctx.Err()
	}, change...)
}

func (s *stage) enterWith(client *clientv3.Client, fn func(context.Context, *election.Term) error, change ...func(*election.Config)) *actor {
	s.t.Helper()
	a := &actor{s: s, terms: make(chan *election.Term, 64), ends: make(chan error, 64), done: make(chan error, 1)}
	cfg := election.Config{
		Name: "e", Root: s.root, Identity: "actor", TTL: time.Minute,
		Hooks: election.Hooks{Ended: func(_ *election.Term, cause error) { a.ends <- cause }},
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := election.New(client, cfg)
	must(s.t, err)
	a.Elector = e
	var ctx context.Context
	ctx, a.stop = context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		a.done <- e.Run(ctx, func(ctx context.Context, t *election.Term) error {
			a.terms <- t
			return fn(ctx, t)
		})
	})
	s.t.Cleanup(func() {
		a.stop()
		wg.Wait()
	})
	return a
}

// leads blocks until the actor begins a term.
func (a *actor) leads() *election.Term {
	a.s.t.Helper()
	return receive(a.s.t, "the next term", a.terms)
}

// ended blocks until a term has ended, and returns why.
func (a *actor) ended() error {
	a.s.t.Helper()
	return receive(a.s.t, "the term's end", a.ends)
}

// leaves stops the actor and waits for its end.
func (a *actor) leaves() error {
	a.s.t.Helper()
	a.stop()
	return receive(a.s.t, "the end of Run", a.done)
}

func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-within(t).Done():
		t.Fatalf("%s: never came", what)
		panic("unreachable")
	}
}

// candidates blocks until n sessions wait, and returns them.
func (s *stage) candidates(n int) []string {
	s.t.Helper()
	for ctx := within(s.t); ; {
		st, err := line.LeadershipState(ctx, s.store, "e")
		if err == nil && len(st.Waiters) == n {
			return st.Waiters
		}
		s.asksAgain(ctx, err, fmt.Sprintf("%d candidates: got %+v", n, st))
	}
}

// asksAgain is for what looks until it sees something. On a busy machine a request may have no answer in its time.
func (s *stage) asksAgain(ctx context.Context, err error, want string) {
	s.t.Helper()
	if ctx.Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatalf("%s, %v", want, err)
	}
}

// revoke ends the lease of a session.
func (s *stage) revoke(sid string) {
	s.t.Helper()
	id, err := strconv.ParseUint(sid[strings.LastIndexByte(sid, '.')+1:], 16, 64)
	must(s.t, err)
	_, err = s.client.Revoke(within(s.t), clientv3.LeaseID(id))
	must(s.t, err)
}

// leader reads who leads.
func (s *stage) leader() line.State {
	s.t.Helper()
	for ctx := within(s.t); ; {
		st, err := line.LeadershipState(ctx, s.store, "e")
		if err == nil {
			return st
		}
		s.asksAgain(ctx, err, "who leads")
	}
}

// wantNothing blocks until no key of the election is left.
func (s *stage) wantNothing() {
	s.t.Helper()
	for ctx := within(s.t); ; {
		resp, err := s.client.Get(ctx, s.store.Keys().Elections(), clientv3.WithPrefix())
		if err != nil {
			s.t.Fatalf("left behind: %v", err)
		}
		if resp.Count == 0 {
			return
		}
	}
}

// observed receives states in the background.
type observed struct {
	t      *testing.T
	states <-chan election.State
	cancel context.CancelFunc
}

func (s *stage) observe(client *clientv3.Client) *observed {
	s.t.Helper()
	e, err := election.New(client, election.Config{Name: "e", Root: s.root})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	o := &observed{t: s.t, states: e.Observe(ctx), cancel: cancel}
	s.t.Cleanup(o.end)
	return o
}

// end gives the observation up: only now may the channel be closed.
func (o *observed) end() {
	o.cancel()
	for range o.states {
	}
}

// next is the next state, whatever it is.
func (o *observed) next() election.State {
	o.t.Helper()
	select {
	case s, ok := <-o.states:
		if !ok {
			o.t.Fatal("the observer's channel was closed")
		}
		return s
	case <-within(o.t).Done():
		o.t.Fatal("the observer says nothing")
	}
	panic("unreachable")
}

// until skips states of which skip tells that they may come first, and wants one of
// this status.
func (o *observed) until(want election.Status, skip ...election.Status) election.State {
	o.t.Helper()
	for {
		s := o.next()
		if s.Status == want {
			return s
		}
		may := false
		for _, status := range skip {
			may = may || s.Status == status
		}
		if !may {
			o.t.Fatalf("observed %+v, want %s", s, want)
		}
	}
}
