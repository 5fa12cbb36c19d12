package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// trial is one mode in one scenario, once.
type trial struct {
	sim      *simulation
	s        Settings
	scenario *scenario
	mode     Mode
	number   int

	plan    plan
	order   map[string]int // jobs by their place in the list
	root    string
	keys    keyspace.Keyspace
	admin   *clientv3.Client // the run's, not an agent's
	life    context.Context  // ends when the trial is over
	aside   sync.WaitGroup   // what faults have running beside the agents
	story   *chronicle
	witness *witness
	outside *outside
	asked   requests // of agents and dispatchers, since the start

	agents      []*agent
	dispatchers []*dispatcher
	// assigning is how many assignments wait for an answer, inFlight how many did
	// when the dispatcher died. The next dispatcher to assign anything while trap is set
	// is caught with it. All with the story's mu held.
	assigning, inFlight int
	trap                bool
	caught              *dispatcher
}

// outcome is what is counted of one trial. Times are in milliseconds of the plan,
// claimMS excepted, which is real.
type outcome struct {
	duplicated, extraRuns, unfinished, buried int
	lateRefused, lateAccepted, lostRaces      int
	takeovers, successors                     int
	struckFinishedMS                          []float64 // none or one
	takeoverMS                                []float64
	claimMS, wallMS                           float64
	requests                                  [sorts]float64 // per job
	lateLanes, lateWrote, inFlight            int
	effects                                   effects
	timedOut                                  bool

	story *chronicle // kept for one trial per mode
}

// lateAssignmentsRefused is how many assignments of a dead dispatcher arrived and
// changed nothing.
func (o *outcome) lateAssignmentsRefused() int {
	if o.lateLanes == 0 || o.lateWrote > 0 {
		return 0
	}
	return o.inFlight
}

func (sim *simulation) newTrial(sc *scenario, m Mode, number int) (*trial, error) {
	root := fmt.Sprintf("%s%s/%s/%d/", sim.root, sc.name, m, number)
	keys, err := keyspace.New(root)
	if err != nil {
		return nil, err
	}
	t := &trial{
		sim: sim, s: sim.s, scenario: sc, mode: m, number: number, plan: newPlan(sim.s, sc.name, number), order: map[string]int{},
		root: root, keys: keys, admin: sim.admin, story: newChronicle(sim.s.Jobs), outside: newOutside(),
	}
	t.witness = &witness{root: root, keys: keys, naive: t.naiveJobs(), story: t.story, seen: make(chan struct{})}
	for i := range sim.s.Jobs {
		t.order[jobID(i)] = i
	}
	for i := range sim.s.Agents {
		t.agents = append(t.agents, &agent{trial: t, index: i, name: agentName(i)})
	}
	return t, nil
}

func (t *trial) newNode(ctx context.Context, name string, opts ...grpc.DialOption) (*node, error) {
	return newNode(ctx, t.sim.endpoint, name, append(opts, t.asked.options()...)...)
}

// start begins the trial's time.
func (t *trial) start() {
	t.asked.reset()
	t.story.start()
}

// race runs the trial to its end and counts. It blocks until every agent that lives
// has left.
func (t *trial) race(ctx context.Context) (*outcome, error) {
	resp, err := t.admin.Get(ctx, t.witness.lastKey())
	if err != nil {
		return nil, fmt.Errorf("reach etcd: %w", err)
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watched := make(chan error, 1)
	t.aside.Go(func() { watched <- t.witness.watch(watching, t.admin, resp.Header.Revision+1) })
	defer t.aside.Wait()
	defer stopWatching() // before the wait

	timedOut, err := t.raceWithin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := t.admin.Put(ctx, t.witness.lastKey(), "x"); err != nil {
		return nil, fmt.Errorf("end the trial: %w", err)
	}
	select {
	case <-t.witness.seen:
	case err := <-watched:
		if err != nil {
			return nil, err
		}
	}
	return t.count(timedOut), nil
}

// errOver ends what faults have running when the trial is over.
var errOver = errors.New("the trial is over")

// raceWithin races for as long as the plan has patience. What is unfinished then is
// counted so, and no error.
func (t *trial) raceWithin(ctx context.Context) (timedOut bool, err error) {
	within, cancel := context.WithTimeout(ctx, t.plan.patience(t.s))
	defer cancel()
	life, over := context.WithCancelCause(within)
	defer over(errOver)
	t.life = life
	if t.mode == Naive {
		err = t.raceNaive(life)
	} else {
		err = t.raceLibrary(life)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if within.Err() != nil {
		return true, nil
	}
	return false, err
}

// count makes the outcome of what is known at the end.
func (t *trial) count(timedOut bool) *outcome {
	c := t.story
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &outcome{
		duplicated: c.truth.duplicated(), unfinished: c.truth.unfinished(), buried: c.truth.buried(),
		lateRefused: c.refusals, lateAccepted: len(c.truth.late), lostRaces: c.lostRaces,
		takeovers: len(c.truth.takeovers), successors: max(0, len(c.leaders)-1),
		claimMS:   float64(c.claimTime.Microseconds()) / 1000 / float64(t.s.Jobs),
		lateLanes: len(c.lateLanes), lateWrote: c.lateWrote, inFlight: t.inFlight,
		requests: t.asked.perJob(t.s.Jobs), effects: t.outside.tally(t.s.Jobs), timedOut: timedOut,
	}
	reached := map[string]int{}
	for _, r := range c.runs {
		if r.reached {
			if reached[r.job]++; reached[r.job] > 1 {
				o.extraRuns++
			}
		}
	}
	for _, over := range c.truth.takeovers {
		o.takeoverMS = append(o.takeoverMS, t.s.unscaledMS(over.after))
	}
	if c.struck != nil {
		if j := c.truth.jobs[c.struck.job]; j.saved.After(c.struckAt) {
			o.struckFinishedMS = append(o.struckFinishedMS, t.s.unscaledMS(j.saved.Sub(c.struckAt)))
		}
	}
	if last := c.truth.last; !last.IsZero() {
		o.wallMS = t.s.unscaledMS(last.Sub(c.began))
	}
	if t.number == 0 {
		o.story = c
	}
	return o
}
