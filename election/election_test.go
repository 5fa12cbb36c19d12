package election_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// elector returns a candidate of election "e" under root.
func elector(t *testing.T, root string) *election.Elector {
	t.Helper()
	e, err := election.New(etcdtest.Shared(t).Client(t), election.Config{Name: "e", Root: root, TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLeadersFollowEachOther(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	type win struct {
		who   int
		token coord.Token
	}
	wins := make(chan win)
	var stops []context.CancelFunc
	for i := range 3 {
		e := elector(t, root)
		runCtx, stop := context.WithCancel(ctx)
		stops = append(stops, stop)
		wg.Go(func() {
			err := e.Run(runCtx, func(ctx context.Context, term *election.Term) error {
				select {
				case wins <- win{i, term.Token()}:
				case <-ctx.Done():
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	var last coord.Token
	for range 3 {
		w := <-wins
		if w.token <= last {
			t.Errorf("token %s does not rise over %s", w.token, last)
		}
		last = w.token
		stops[w.who]()
	}
}

func TestObserverSeesTransferWithoutAGap(t *testing.T) {
	t.Parallel()
	root := etcdtest.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, b := elector(t, root), elector(t, root)
	var wg sync.WaitGroup
	defer wg.Wait()
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	run := func(e *election.Elector) {
		wg.Go(func() {
			if err := e.Run(runCtx, func(ctx context.Context, _ *election.Term) error { <-ctx.Done(); return nil }); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	observeCtx, unobserve := context.WithCancel(ctx)
	states := a.Observe(observeCtx)
	run(a)
	next := func(want election.Status) election.State {
		for s := range states {
			if s.Status == want {
				return s
			}
			if want == election.Leader && s.Status == election.None {
				continue
			}
			t.Fatalf("got %+v, want %s", s, want)
		}
		t.Fatal("the channel was closed")
		return election.State{}
	}
	first := next(election.Leader)
	run(b)
	var to []string
	for len(to) == 0 {
		var err error
		if to, err = a.Candidates(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Transfer(ctx, to[0]); err != nil {
		t.Fatal(err)
	}
	second := <-states
	if second.Status != election.Leader || second.Session != to[0] || second.Token <= first.Token {
		t.Errorf("after transfer: got %+v, want leader %s", second, to[0])
	}
	if err := a.Verify(ctx); !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("verify of the old leader: %v", err)
	}
	if err := b.Verify(ctx); err != nil {
		t.Errorf("verify of the new leader: %v", err)
	}
	unobserve()
	for range states {
	}
}
