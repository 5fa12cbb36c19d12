package simulate

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// simulation is one run.
type simulation struct {
	s        Settings
	endpoint string
	root     string // of all trials, and of no other run
	admin    *clientv3.Client
	progress *progress

	remains sync.WaitGroup // of agents that died
}

// allRoots is the prefix of every run's keys.
const allRoots = "/leasekit-simulate/"

// farewell bounds what an interrupted run waits for.
const farewell = 2 * time.Second

// Run races what the settings say, on an embedded etcd of its own, and tells tell
// how far it is, now and then. It blocks until all trials are over, or ctx ends;
// then its error is ctx's cause, and what could not end in [farewell] is left to the
// end of the process.
func Run(ctx context.Context, s Settings, tell func(Progress)) (*Report, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{Fast: true})
	if err != nil {
		return nil, err
	}
	defer etcd.Close()
	return raceOn(ctx, etcd.Endpoints()[0], s, tell)
}

// raceOn is Run on an etcd that grants leases of 1 s.
func raceOn(ctx context.Context, endpoint string, s Settings, tell func(Progress)) (*Report, error) {
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialTimeout: dialTimeout})
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	sim := &simulation{s: s, endpoint: endpoint, root: allRoots + keyspace.NewNonce() + "/", admin: admin, progress: newProgress(s, tell)}
	type raced struct {
		report *Report
		err    error
	}
	over := make(chan raced, 1)
	go func() {
		report, err := sim.raceAll(ctx)
		sim.remains.Wait()
		over <- raced{report, err}
	}()
	select {
	case r := <-over:
		return r.report, r.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	select {
	case <-over:
	case <-patience.C:
	}
	return nil, context.Cause(ctx)
}

// task is one trial to race, and where its outcome goes.
type task struct {
	sc     *scenario
	mode   Mode
	number int
	into   **outcome
}

// raceAll races all trials, Parallel at a time.
func (sim *simulation) raceAll(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	report := &Report{Settings: sim.s.shown(), trials: map[string][]*outcome{}, alone: map[Mode]*float64{}}
	if err := sim.measureAlone(ctx, report); err != nil {
		return nil, err
	}
	tasks := sim.plan(report)
	queue := make(chan task)
	var racers sync.WaitGroup
	for range min(sim.s.Parallel, len(tasks)) {
		racers.Go(func() {
			for t := range queue {
				if err := sim.race(ctx, t); err != nil {
					cancel(err)
				}
			}
		})
	}
	stop := sim.progress.start()
	for _, t := range tasks {
		select {
		case queue <- t:
		case <-ctx.Done():
		}
	}
	close(queue)
	racers.Wait()
	stop()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	report.sum(sim.s)
	return report, nil
}

// plan lists all trials, the slowest mode first, and makes room for their outcomes.
func (sim *simulation) plan(report *Report) []task {
	var tasks []task
	for _, name := range sim.s.Scenarios {
		sc, _ := scenarioNamed(name) // validated
		for _, m := range sim.s.modesOf(sc) {
			outcomes := make([]*outcome, sim.s.Trials)
			report.trials[outcomesKey(name, m)] = outcomes
			for n := range outcomes {
				tasks = append(tasks, task{sc, m, n, &outcomes[n]})
			}
		}
	}
	return tasks
}

func outcomesKey(scenario string, m Mode) string { return scenario + "/" + string(m) }

func (sim *simulation) race(ctx context.Context, t task) error {
	sim.progress.began(t.sc.name)
	defer sim.progress.ended()
	tr, err := sim.newTrial(t.sc, t.mode, t.number)
	if err == nil {
		*t.into, err = tr.race(ctx)
	}
	if err != nil {
		return fmt.Errorf("trial %d of %s in scenario %s: %w", t.number+1, t.mode, t.sc.name, err)
	}
	return nil
}

// behind runs f, which Run waits for.
func (sim *simulation) behind(f func()) { sim.remains.Go(f) }

// sum makes results and checks of the outcomes.
func (r *Report) sum(s Settings) {
	for _, name := range s.Scenarios {
		sc, _ := scenarioNamed(name)
		for _, m := range s.modesOf(sc) {
			trials := r.trials[outcomesKey(name, m)]
			result := resultOf(sc, m, trials)
			result.ClaimAloneMS = r.alone[m]
			r.Results = append(r.Results, result)
			r.Checks = append(r.Checks, checksOf(sc, &result, trials)...)
		}
	}
}
