package integration_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/integration/faults"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

// chaosConfig is one run of the chaos test.
type chaosConfig struct {
	seed     uint64
	duration time.Duration
	members  int
	mode     string
	auth     bool // with users and passwords, in long runs
}

func (cfg chaosConfig) String() string {
	return fmt.Sprintf("-seed %d -duration %v -members %d -mode %s", cfg.seed, cfg.duration, cfg.members, cfg.mode)
}

// rng returns a source of its own for everything that draws.
func (cfg chaosConfig) rng(purpose string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, cfg.members, cfg.mode, purpose)
	return rand.New(rand.NewPCG(cfg.seed, h.Sum64()))
}

// Everything goes wrong at once: workers are killed and freeze, networks lose what
// they carry, etcd's members come and go, operators interfere; and every job that was
// accepted is worked to its end, once. See the flags in main_test.go.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}
	for m, members := range []int{1, 3} {
		for n, mode := range []string{"claim", "dispatch"} {
			if *membersFlag != 0 && *membersFlag != members || *modeFlag != "" && *modeFlag != mode {
				continue
			}
			// A short run has both sizes and both modes, but not each with each: which, the seed says.
			asked := *membersFlag != 0 || *modeFlag != "" || *durationFlag >= long
			if !asked && (uint64(m+n)+seed)%2 == 1 {
				continue
			}
			before := goleak.IgnoreCurrent()
			t.Run(fmt.Sprintf("%d-%s", members, mode), func(t *testing.T) {
				newChaos(t, chaosConfig{seed: seed, duration: *durationFlag, members: members, mode: mode, auth: *durationFlag >= long}).run(t)
			})
			wantBaseLine(t, before)
		}
	}
}

// wantBaseLine checks that no goroutine is left that was not there before. Those of
// peer connections take seconds to end.
func wantBaseLine(t *testing.T, before goleak.Option) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for err := goleak.Find(before); err != nil; err = goleak.Find(before) {
		if time.Now().After(deadline) {
			t.Errorf("goroutines are left: %v", err)
			return
		}
	}
}

// chaos is one run under way.
type chaos struct {
	*chaosWorld
	rec     *history.Recorder // producers, operators and faults
	witness *history.Witness
	procs   []*chaosProc
	clients []*chaosClient
	leaders []*history.Recorder
	guests  []*guest

	mu      sync.Mutex
	ids     []string // that were enqueued, or may have been
	outages int      // faults in force that leave nobody to serve
	journal []string
	began   time.Time
	healed  time.Time // when the last fault was
	told    []told    // to those who waited

	counter, order written

	loseMore atomic.Bool // see deal
}

func newChaos(t *testing.T, cfg chaosConfig) *chaos {
	t.Helper()
	c := &chaos{chaosWorld: newChaosWorld(t, cfg), rec: history.NewRecorder("test"), began: time.Now()}
	var err error
	c.witness, err = history.StartWitness(t.Context(), c.adminClient, history.WitnessConfig{Root: chaosRoot, Also: []string{chaosEffects}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.witness.Close() }) // what it returns was looked at
	c.env.Seen = c.witness.Compactable
	return c
}

// run runs everything, heals everything, drains the queue and judges.
func (c *chaos) run(t *testing.T) {
	t.Logf("to repeat: go test ./integration -run 'TestChaos$' %v", c.cfg)
	t.Cleanup(func() {
		if t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, line := range c.journal {
				t.Log(line)
			}
		}
	})
	queue := c.openAdmin(t)
	if err := queue.SetMode(bounded(t), c.cfg.mode, workqueue.By{Actor: "chaos"}); err != nil {
		t.Fatal(err)
	}
	c.startWorkers(t)
	stopLeaders := c.startLeaders(t)
	operator := c.openBehind(t, c.rec, "operator")
	producers := []*history.Queue{c.openBehind(t, c.rec, "producer0"), c.openBehind(t, c.rec, "producer1")}
	c.park(t, producers[0])
	guests := c.startGuests(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*c.cfg.duration)
	defer cancel()
	trouble, calm := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i, q := range producers {
		wg.Go(func() { c.produce(trouble, q, i) })
	}
	wg.Go(func() { c.operate(trouble, operator) })
	for _, visit := range guests {
		wg.Go(func() { visit(trouble) })
	}
	wg.Go(func() { c.makeTrouble(trouble, t) })
	c.awaitReached(ctx)
	calm()
	wg.Wait()
	c.note("calm")
	c.resume(t, queue)
	c.quiesce(t, "healed", c.healed)
	if _, err := operator.Cancel(bounded(t), parkedJob, workqueue.By{Actor: "chaos"}); err != nil {
		t.Error(err)
	}
	c.drain(t, queue)
	c.quiesce(t, "drained", time.Now())
	stopLeaders()
	c.stopWorkers(t)
	c.judge(t)
}

// awaitReached blocks for the duration, and for as long again at most until every
// probe was reached.
func (c *chaos) awaitReached(ctx context.Context) {
	wait(ctx, c.cfg.duration)
	for missing := c.missing(); len(missing) > 0; missing = c.missing() {
		c.loseMore.Store(slices.Contains(missing, history.AmbiguousYes))
		if !wait(ctx, 3*time.Second) {
			return
		}
	}
}

// deal is what goes wrong next. Which answers a fault loses is chance: when the time is
// over and no write of theirs was applied yet, more of them are lost.
func (c *chaos) deal(deck *faults.Deck) faults.Fault {
	if c.loseMore.Load() {
		return faults.LoseAnswers{Reach: faults.Network}
	}
	return deck.Next()
}

// wait blocks for d; false means that ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// note writes into the journal, which a failed run shows.
func (c *chaos) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal = append(c.journal, fmt.Sprintf("%7.3fs ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

const (
	// atOnce bounds the faults in force at one time.
	atOnce = 3
	// breather is how long nothing hits everybody after something did: the run is
	// about work in trouble, not about waiting for etcd.
	breather = 1500 * time.Millisecond
)

// makeTrouble draws faults until ctx ends, and heals them all.
func (c *chaos) makeTrouble(ctx context.Context, t *testing.T) {
	rng := c.cfg.rng("trouble")
	deck := faults.NewDeck(c.env.Rand, c.menu())
	inForce, everybody := make(chan struct{}, atOnce), make(chan struct{}, 1)
	var healing sync.WaitGroup
	defer func() {
		healing.Wait()
		c.healed = time.Now()
	}()
	for wait(ctx, time.Duration(rng.IntN(500))*time.Millisecond) {
		inForce <- struct{}{}
		f := c.deal(deck)
		held := time.Duration(100+rng.IntN(3000)) * time.Millisecond
		over, err := func() {}, error(nil)
		if !isLocal(f) {
			held /= 3
			over, err = c.hitEverybody(ctx, everybody)
		}
		var heal faults.Heal
		if err == nil {
			if heal, err = c.inject(ctx, f); err != nil {
				over()
			}
		}
		if err != nil {
			c.note("not injected: %s: %v", f.Name(), err)
			if c.rec.Reached().Counts()[probeOf(f)] == 0 {
				deck.Again(f)
			}
			<-inForce
			continue
		}
		c.note("injected: %s", f.Name())
		c.rec.Reached().Hit(probeOf(f))
		healing.Go(func() {
			wait(ctx, held)
			c.heal(t, f, heal)
			<-inForce
			over()
		})
	}
}

var errOthersDo = errors.New("another fault hits everybody")

// hitEverybody marks that nobody may be able to work until over is called, which
// blocks for a breather. One fault at a time does that.
func (c *chaos) hitEverybody(ctx context.Context, token chan struct{}) (over func(), err error) {
	select {
	case token <- struct{}{}:
	default:
		return nil, errOthersDo
	}
	back := c.away()
	return func() {
		back()
		wait(ctx, breather)
		<-token
	}, nil
}

// menu is what can go wrong in this run.
func (c *chaos) menu() []faults.Weighted {
	return slices.DeleteFunc(faults.Menu(c.cfg.members), func(w faults.Weighted) bool {
		name := w.Fault.Name()
		return !c.cfg.auth && (name == faults.ExpireTokens{}.Name() || name == faults.Demote{}.Name())
	})
}

func probeOf(f faults.Fault) string { return "fault:" + f.Name() }

// inject injects a fault; what is begun is finished, even when ctx ends.
func (c *chaos) inject(ctx context.Context, f faults.Fault) (faults.Heal, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return f.Inject(ctx, c.env)
}

func (c *chaos) heal(t *testing.T, f faults.Fault, heal faults.Heal) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := heal(ctx)
	for err != nil && wait(ctx, 100*time.Millisecond) { // other faults may be in the way
		err = heal(ctx)
	}
	if err != nil {
		t.Errorf("%s is not healed: %v", f.Name(), err)
	}
	c.note("healed: %s", f.Name())
}

// local are the faults that hit one client at most, so that others can take its jobs
// over.
var local = []faults.Fault{
	faults.Kill{}, faults.Freeze{}, faults.Pause{}, faults.Pause{Reach: faults.Network}, faults.LoseAnswers{}, faults.Late{},
	faults.LoseAnswers{Reach: faults.Network}, faults.Late{Reach: faults.Network}, faults.Drop{}, faults.Refuse{},
	faults.Slow{}, faults.Slow{Reach: faults.Network}, faults.Revoke{}, faults.StepClock{By: 1}, faults.StepClock{By: -1},
	faults.Deny{Denial: faults.Permission}, faults.Deny{Denial: faults.Permission, Part: "/leader"}, faults.Deny{Denial: faults.Space}, faults.Deny{Denial: faults.Size},
	faults.SlowWatch{}, faults.ExpireTokens{}, faults.Compact{}, faults.Both(faults.Kill{}, faults.LoseAnswers{}),
	faults.During(faults.Compact{}, faults.Freeze{}, 0), faults.Sequence(0, faults.LoseAnswers{}, faults.Late{}, faults.Drop{}),
}

func isLocal(f faults.Fault) bool {
	return slices.ContainsFunc(local, func(l faults.Fault) bool { return l.Name() == f.Name() })
}

// away marks the beginning of a time in which nobody may be able to work, and its end.
func (c *chaos) away() (over func()) {
	c.count(1, history.Outage)
	return sync.OnceFunc(func() { c.count(-1, history.Restored) })
}

// count marks the first outage's beginning and the last one's end.
func (c *chaos) count(n int, kind history.MarkKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outages += n; c.outages == max(n, 0) {
		c.rec.Mark(kind, "")
	}
}

// resume undoes what operators have left.
func (c *chaos) resume(t *testing.T, queue *workqueue.Queue) {
	t.Helper()
	by := workqueue.By{Actor: "chaos", Reason: "drain"}
	_, err := insist(bounded(t), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, errors.Join(queue.Resume(ctx, by), queue.SetMode(ctx, c.cfg.mode, by))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// drain blocks until no live job is left.
func (c *chaos) drain(t *testing.T, queue *workqueue.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := queue.WaitEmpty(ctx); err != nil {
		t.Errorf("the queue does not drain: %v", err)
		for j, err := range queue.List(bounded(t), workqueue.Filter{}) {
			if err != nil || j.State.Live() {
				c.note("left: %+v, %v", j, err)
			}
		}
	}
	c.note("drained")
	wait(ctx, 2*time.Second) // for handlers that were given up and still run
}
