package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/history"
)

// chaosElection is an election beside the queue, whose leader writes all the time.
const chaosElection, candidates = "boss", 2

// startLeaders starts candidates, each behind a network of its own. They run until
// the function that it returns is called, which joins them.
func (c *chaos) startLeaders(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range candidates {
		rec := history.NewRecorder(fmt.Sprintf("leader%d", i))
		c.leaders = append(c.leaders, rec)
		cfg := election.Config{
			Name: chaosElection, Root: chaosRoot, TTL: theSize().ttl, Identity: fmt.Sprintf("leader%d", i), Logger: zap.New(rec.Reached().Core()),
		}
		cl := c.dialBehind(t)
		if i == 0 { // its session goes on from term to term
			cfg.SessionKeeper = runMember(t, cl, cfg.Identity, cfg.Logger)
		}
		e, err := election.New(cl, cfg)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			// A first session can be denied, by roles too; it stands again.
			for ctx.Err() == nil {
				err := e.Run(ctx, rec.Term(chaosElection, func(ctx context.Context, term *election.Term) error { return lead(ctx, rec, term) }))
				if err != nil && !errors.Is(err, errEnoughLed) && !isDenied(err) {
					t.Errorf("leader%d: %v", i, err)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// runMember runs a member until the test ends.
func runMember(t *testing.T, cl *clientv3.Client, identity string, log *zap.Logger) *coord.SessionKeeper {
	t.Helper()
	m := coord.NewSessionKeeper(cl, coord.SessionConfig{Root: chaosRoot, TTL: theSize().ttl, Identity: identity, Logger: log})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("%s: %v", identity, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if _, err := m.Session(bounded(t)); err != nil { // before anything goes wrong
		t.Fatal(err)
	}
	return m
}

// isDenied tells that a role may not do what was asked.
func isDenied(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && e.Code() == codes.PermissionDenied || status.Code(err) == codes.PermissionDenied
}

var errEnoughLed = errors.New("led for long enough")

// lead writes under the fence of its term, and steps down after a while.
func lead(ctx context.Context, rec *history.Recorder, term *election.Term) error {
	for n := range 60 {
		if !wait(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
		// The record has what became of it.
		_ = rec.Commit(ctx, chaosElection, term, chaosEffects+"boss", fmt.Sprint(term.Token(), " ", n))
	}
	return errEnoughLed
}
