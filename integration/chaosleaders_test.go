package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

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
		e, err := election.New(c.dialBehind(t), election.Config{
			Name: chaosElection, Root: chaosRoot, TTL: theSize().ttl, Identity: fmt.Sprintf("leader%d", i), Logger: zap.New(rec.Reached().Core()),
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			// A first session can be denied while tokens expire; it stands again.
			for ctx.Err() == nil {
				err := e.Run(ctx, rec.Term(chaosElection, func(ctx context.Context, term *election.Term) error { return lead(ctx, rec, term) }))
				if err != nil && !errors.Is(err, errEnoughLed) {
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
