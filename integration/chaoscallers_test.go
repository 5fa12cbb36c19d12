package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// guest is a process without a worker, behind a network of its own: its session goes on
// when what it does is over, so nothing that it leaves behind ends by itself.
type guest struct {
	c      *chaos
	name   string
	rec    *history.Recorder
	rng    *rand.Rand
	client *clientv3.Client
	member *coord.SessionKeeper
}

// startGuests starts those who do without a worker, and returns what each does until its
// ctx ends.
func (c *chaos) startGuests(t *testing.T) []func(context.Context) {
	t.Helper()
	var visits []func(context.Context)
	for i := range 2 {
		byHand, counting := c.startGuest(t, fmt.Sprint("hand", i)), c.startGuest(t, fmt.Sprint("counter", i))
		q, other := byHand.open(t), byHand.open(t)
		visits = append(visits, func(ctx context.Context) { byHand.claimByHand(ctx, q, other) }, counting.count)
	}
	waiter, writer := c.startGuest(t, "waiter"), c.startGuest(t, "writer")
	q := waiter.open(t)
	return append(visits, func(ctx context.Context) { waiter.waitAgain(ctx, q) }, writer.overwrite)
}

// startGuest starts the guest's session, which ends with the test.
func (c *chaos) startGuest(t *testing.T, name string) *guest {
	t.Helper()
	g := &guest{c: c, name: name, rec: history.NewRecorder(name), rng: c.cfg.rng(name), client: c.dialBehind(t)}
	g.member = runMember(t, g.client, name, zap.New(g.rec.Reached().Core()))
	c.guests = append(c.guests, g)
	return g
}

// open opens the queue for the guest.
func (g *guest) open(t *testing.T) *history.Queue {
	t.Helper()
	cfg := queueConfig(zap.New(g.rec.Reached().Core()))
	cfg.Identity = g.name
	q, err := workqueue.Open(bounded(t), g.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return g.rec.Queue(g.name, q)
}

// hurry draws for how long the guest waits for an answer: every third time it leaves
// early. It does not end with the run, as what is begun is finished.
func (g *guest) hurry(ctx context.Context) (context.Context, context.CancelFunc) {
	d := 5 * time.Second
	if g.rng.IntN(3) == 0 {
		d = time.Duration(1+g.rng.IntN(40)) * time.Millisecond
	}
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// claimByHand claims jobs without a worker until ctx ends, and closes each claim in one
// way or another. Other is a handle as another process of a script has it.
func (g *guest) claimByHand(ctx context.Context, q, other *history.Queue) {
	for wait(ctx, time.Duration(20+g.rng.IntN(100))*time.Millisecond) {
		call, cancel := g.hurry(ctx)
		s, err := g.member.Session(call)
		if err == nil {
			var claim *workqueue.Claim
			if claim, err = q.Claim(call, s); err == nil {
				g.closeClaim(ctx, s, claim, other)
			}
		}
		cancel()
	}
}

// closeClaim closes a claim, however often that has to be tried, as long as it is the
// session's: an open claim is the caller's.
func (g *guest) closeClaim(ctx context.Context, s *coord.Session, claim *workqueue.Claim, other *history.Queue) {
	life, stop := s.Context(context.Background())
	defer stop()
	for try := 0; s.Err() == nil; try++ {
		call, cancel := g.hurry(ctx)
		err := g.closeOnce(call, claim, other, try)
		cancel()
		if err == nil || errors.Is(err, workqueue.ErrSettled) || errors.Is(err, coord.ErrFenced) {
			g.rec.Reached().Hit(fmt.Sprint("by-hand:closed-at-try-", min(try, 2)))
			return
		}
		wait(life, 10*time.Millisecond)
	}
}

// closeOnce takes one of the ways out of a claim.
func (g *guest) closeOnce(ctx context.Context, claim *workqueue.Claim, other *history.Queue, try int) error {
	switch n := g.rng.IntN(6); {
	case n == 0:
		return g.rec.Release(ctx, claim)
	case n == 1:
		return g.rec.Fail(ctx, claim, errors.New("by hand"))
	case n == 2 && try == 0:
		return completeWithJob(ctx, g.rec, other.Queue, claim, []byte(`"by hand"`), parkedJob)
	case n == 3:
		taken, err := other.ResumeClaim(ctx, claim.Job().ID, claim.Token(), claim.Fence().Nonce)
		if err != nil {
			return err
		}
		g.rec.Reached().Hit("by-hand:take-up")
		return g.rec.Complete(ctx, taken, []byte(`"taken up"`))
	}
	return g.rec.Complete(ctx, claim, []byte(`"by hand"`))
}

// waitAgain enqueues jobs of a few ids, and waits for them, while their ids are used
// again.
func (g *guest) waitAgain(ctx context.Context, q *history.Queue) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 3 {
		wg.Go(func() {
			for n := 0; wait(ctx, 50*time.Millisecond); n++ {
				id := fmt.Sprintf("again%d-%d", i, n/10)
				call, cancel := context.WithTimeout(ctx, time.Duration(1+rand.IntN(3000))*time.Millisecond)
				enqueued, err := q.Enqueue(call, workqueue.Params{ID: id, Kind: "quick"})
				g.waitOnce(call, q, id, enqueued, err == nil && n%2 == 0)
				cancel()
			}
		})
	}
}

// waitOnce waits for that very job, or for the one that has its id, and keeps what it is
// told.
func (g *guest) waitOnce(ctx context.Context, q *history.Queue, id string, enqueued *workqueue.Job, very bool) {
	var wanted string
	wait := func() (*workqueue.Job, error) { return q.Wait(ctx, id) }
	if very {
		wanted = enqueued.Born
		wait = func() (*workqueue.Job, error) { return q.WaitFor(ctx, enqueued) }
	}
	j, err := wait()
	if err != nil {
		return
	}
	g.rec.Reached().Hit("wait:id-used-again")
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.c.told = append(g.c.told, told{j, wanted})
}

// told is a job as one who waited was told that it is over.
type told struct {
	job    *workqueue.Job
	wanted string // the job's born, "" is any
}
