package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// incarnation is one life of an agent that uses the library: what a worker process
// has, from its session to its worker.
type incarnation struct {
	a      *agent
	n      *node
	q      *workqueue.Queue
	member *coord.SessionKeeper
	w      *workqueue.Worker

	leave   context.CancelFunc // ends the member
	members sync.WaitGroup
	buried  chan struct{} // closed when nothing of a dead incarnation can begin any more
}

// queueConfig is a queue as every party of the trial opens it.
func (t *trial) queueConfig(identity string) workqueue.Config {
	return workqueue.Config{
		Queue: queueName, Root: t.root, Identity: identity,
		Backoff: workqueue.Backoff{Initial: t.s.scaled(t.s.Lease / 2), Max: t.s.scaled(2 * t.s.Lease)},
	}
}

// openQueue opens the queue, again when a busy machine let the request time out.
func (t *trial) openQueue(ctx context.Context, client *clientv3.Client, identity string) (*workqueue.Queue, error) {
	for {
		q, err := workqueue.Open(ctx, client, t.queueConfig(identity))
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return q, err
		}
	}
}

// incarnate starts a life: it blocks until the agent has a session.
func (t *trial) incarnate(ctx context.Context, a *agent) (*incarnation, error) {
	n, err := t.newNode(ctx, a.name)
	if err != nil {
		return nil, err
	}
	i := &incarnation{a: a, n: n, buried: make(chan struct{})}
	if i.q, err = t.openQueue(ctx, n.client, a.name); err != nil {
		n.close()
		return nil, fmt.Errorf("start %s: %w", a.name, err)
	}
	i.member = coord.NewSessionKeeper(n.client, coord.SessionConfig{Root: t.root, Identity: a.name, TTL: t.s.scaled(t.s.Lease), Clock: n.clock.read})
	// The member goes after the worker, also when ctx ends.
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	i.leave = leave
	i.members.Go(func() { _ = i.member.Run(life) }) // the worker tells what is wrong
	i.w, err = workqueue.NewWorker(i.q, workqueue.HandlerFunc(i.handle), workqueue.WorkerConfig{
		Concurrency: 1, SessionKeeper: i.member, DrainTimeout: -1, Grace: farewell, Hooks: i.hooks(),
	})
	if err == nil {
		_, err = i.member.Session(ctx)
	}
	if err != nil {
		i.close()
		return nil, fmt.Errorf("start %s: %w", a.name, err)
	}
	return i, nil
}

// handle is the handler, as a user would write it.
func (i *incarnation) handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	story := i.a.trial.story
	r := story.begin(i.a.name, c.Job().ID, c.Token().String())
	err := i.a.work(ctx, i.n, r, func() effect {
		return effect{job: c.Job().ID, key: c.IdempotencyKey(), token: int64(c.Token())}
	})
	if i.n.crashed() {
		// A dead process returns from nothing, and so begins no closing write.
		story.end(r, lost)
		<-i.buried
	}
	if err != nil {
		story.end(r, lost)
		return nil, err
	}
	return []byte(fmt.Sprintf("%q", i.a.name)), nil
}

// hooks tell the story what no key in etcd shows.
func (i *incarnation) hooks() workqueue.Hooks {
	t := i.a.trial
	return workqueue.Hooks{
		Claimed: func(_ *workqueue.Job, took time.Duration) {
			if t.mode == Claim { // else the dispatcher's time counts
				t.story.do(func() { t.story.claimTime += took })
			}
		},
		Missed: func() { t.story.do(func() { t.story.lostRaces++ }) },
		Settled: func(j *workqueue.Job, s workqueue.Settlement) {
			t.story.do(func() {
				r := t.story.runOf(j.ID, j.Token.String())
				switch {
				case r == nil:
				case s.Err == nil && s.HandlerErr == nil:
					t.story.endLocked(r, saved)
				case s.Refused && s.HandlerErr == nil:
					t.story.endLocked(r, refused)
				default:
					t.story.endLocked(r, lost)
					if err := cmp.Or(s.Err, s.HandlerErr); err != nil {
						r.note = err.Error()
					}
				}
			})
		},
	}
}

// live works until ctx ends or the node dies. Whatever is left then is closed:
// before it returns in an orderly end, behind it after a death.
func (i *incarnation) live(ctx context.Context) error {
	worked := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { worked <- i.w.Run(ctx) }()
	select {
	case err := <-worked:
		stop()
		i.close()
		return err
	case <-i.n.dead:
	}
	// A dead process needs no time to die. Its remains in this one do: they find out
	// that nothing of theirs gets through any more. The queue is closed first, against
	// the order of the living, so that nothing is begun that could only be given up.
	i.a.trial.sim.behind(func() {
		_ = i.q.Close()
		close(i.buried)
		stop()
		i.close()
		<-worked
	})
	return nil
}

// close ends what the worker stood on.
func (i *incarnation) close() {
	i.leave()
	i.members.Wait()
	_ = i.q.Close() // what it could not write any more shows in etcd
	i.n.close()
}

// raceLibrary lets the agents share the jobs through the library, until all jobs
// are finished and the scenario's story is told.
func (t *trial) raceLibrary(ctx context.Context) error {
	if err := t.enqueue(ctx); err != nil {
		return err
	}
	ctx, over := context.WithCancel(ctx)
	defer over()
	var parties sync.WaitGroup
	defer parties.Wait()
	defer over() // before the wait
	if err := t.hireDispatchers(ctx, &parties); err != nil {
		return err
	}
	lives, err := t.incarnateAll(ctx)
	if err != nil {
		return err
	}
	t.start()
	failed := make(chan error, len(lives))
	for _, i := range lives {
		parties.Go(func() { failed <- t.libraryLives(ctx, i) })
	}
	told := make(chan error, 1)
	parties.Go(func() { told <- t.tell(ctx) })
	for {
		select {
		case err := <-told:
			t.story.do(func() { t.witness.leaving = true })
			return err
		case err := <-failed:
			if err != nil {
				return err
			}
		}
	}
}

// tell plays the scenario's part that is nobody's run, and waits for the end.
func (t *trial) tell(ctx context.Context) error {
	if t.scenario.stage != nil {
		if err := t.scenario.stage(ctx, t); err != nil {
			return err
		}
	}
	return t.story.until(ctx, t.story.settled)
}

// enqueue puts the jobs into the queue, and the queue into the trial's mode.
func (t *trial) enqueue(ctx context.Context) error {
	q, err := t.openQueue(ctx, t.admin, "producer")
	if err != nil {
		return err
	}
	defer q.Close()
	items := make([]workqueue.Params, t.s.Jobs)
	for i := range items {
		items[i].ID = jobID(i)
	}
	results, err := q.EnqueueBatch(ctx, items)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err == nil && t.mode == Dispatch {
		err = q.SetMode(ctx, string(Dispatch), workqueue.By{Actor: "simulate"})
	}
	return err
}

// incarnateAll starts all agents, or none.
func (t *trial) incarnateAll(ctx context.Context) ([]*incarnation, error) {
	lives := make([]*incarnation, len(t.agents))
	errs := make([]error, len(t.agents))
	var starting sync.WaitGroup
	for i, a := range t.agents {
		starting.Go(func() { lives[i], errs[i] = t.incarnate(ctx, a) })
	}
	starting.Wait()
	err := errors.Join(errs...)
	for _, i := range lives {
		if err != nil && i != nil {
			i.close()
		}
	}
	return lives, err
}

// libraryLives is an agent over its incarnations.
func (t *trial) libraryLives(ctx context.Context, i *incarnation) error {
	if !i.n.pause(ctx, t.s.scaled(t.plan.starts[i.a.index])) {
		i.close()
		return nil
	}
	for {
		err := i.live(ctx)
		if err != nil || ctx.Err() != nil || !t.scenario.restarts {
			return err
		}
		if !sleep(ctx, t.s.scaled(t.plan.restart)) {
			return nil
		}
		next, err := t.incarnate(ctx, i.a)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		i = next
	}
}

// sleep waits for d; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
