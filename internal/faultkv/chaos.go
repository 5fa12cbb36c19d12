package faultkv

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/etcdkv"
)

// Chaos plans a random fate for every Txn, from a seed that it prints.
type Chaos struct {
	mu      sync.Mutex
	rng     *rand.Rand
	Dropped atomic.Int64
}

// NewChaos plans for the world from now on.
func NewChaos(t *testing.T, w *World) *Chaos {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &Chaos{rng: rand.New(rand.NewPCG(seed, 0))}
	w.PlanBy(func(int, etcdkv.Txn) Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		drawn := c.rng.IntN(100)
		if drawn < 45 {
			c.Dropped.Add(1)
		}
		switch {
		case drawn < 25:
			return Fate{Lose: ErrLost}
		case drawn < 35:
			return Fate{Refuse: ErrLost}
		case drawn < 45:
			return Fate{Late: true}
		}
		return Fate{}
	})
	return c
}

// arrivals delivers late originals again and again until stop is closed.
func arrivals(t *testing.T, w *World, stop <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		w.Arrive(t)
		select {
		case <-stop:
			w.Deliver(t) // nobody waits for anything any more
			return
		case <-tick.C:
		}
	}
}

// Under runs fn while late originals arrive.
func Under(t *testing.T, w *World, fn func()) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { arrivals(t, w, stop) })
	fn()
	close(stop)
	wg.Wait()
}
