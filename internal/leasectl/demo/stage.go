package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/child"
	"github.com/leasekit/leasekit/workqueue"
)

// stage is the workers on one queue, and what they did so far.
type stage struct {
	o        Options
	endpoint string
	client   *clientv3.Client
	q        *workqueue.Queue
	wg       sync.WaitGroup

	mu       sync.Mutex
	workers  []*actor
	accepted map[string]int    // by job
	running  map[string]*actor // by job: who started it last
	started  map[string]started
	heard    chan struct{} // closed and renewed at every message

	takeover time.Duration // from the end of the killed worker's lease to its job running again
}

// started is the latest start of a job.
type started struct {
	session string
	attempt int
	at      time.Time
}

// actor is one worker process.
type actor struct {
	proc    *child.Process
	session string
	jobs    map[string]bool // running now
}

func open(ctx context.Context, o Options, endpoint string, client *clientv3.Client, q *workqueue.Queue) (*stage, error) {
	s := &stage{
		o: o, endpoint: endpoint, client: client, q: q, accepted: map[string]int{},
		running: map[string]*actor{}, started: map[string]started{}, heard: make(chan struct{}),
	}
	for range o.Workers {
		if _, err := s.hire(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// hire starts one more worker process.
func (s *stage) hire() (*actor, error) {
	p, err := child.Start(s.o.ErrOut, []string{"LEASECTL_ENDPOINTS=" + s.endpoint, "LEASECTL_ROOT=" + root, "LEASECTL_OUTPUT=", "LEASECTL_CONTEXT=none"}, s.o.WorkerArgs...)
	if err != nil {
		return nil, err
	}
	a := &actor{proc: p, jobs: map[string]bool{}}
	s.mu.Lock()
	s.workers = append(s.workers, a)
	s.mu.Unlock()
	s.wg.Go(func() {
		for line := range p.Lines {
			var m message
			if json.Unmarshal([]byte(line), &m) == nil {
				s.hear(a, m)
			}
		}
	})
	return a, nil
}

func (s *stage) hear(a *actor, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.What {
	case "start":
		a.session = m.Session
		a.jobs[m.ID] = true
		s.running[m.ID] = a
		s.started[m.ID] = started{m.Session, m.Attempt, time.Now()}
	case "accepted":
		s.accepted[m.ID]++
		delete(a.jobs, m.ID)
		delete(s.running, m.ID)
	case "refused":
		delete(a.jobs, m.ID)
		s.o.Note("late result of %s refused: its claim was no longer current", m.ID)
	}
	close(s.heard)
	s.heard = make(chan struct{})
}

// until blocks until cond, which is called with mu held, holds after some message.
func (s *stage) until(ctx context.Context, cond func() bool) error {
	for {
		s.mu.Lock()
		ok, heard := cond(), s.heard
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// play lets the workers work, kills one, freezes another past its lease and wakes
// it, and waits until all jobs are done.
func (s *stage) play(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	progressCtx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { s.progress(progressCtx) })
	var faults sync.WaitGroup
	for i, fault := range []func(context.Context, *actor) error{s.kill, s.freeze} {
		faults.Go(func() {
			if err := fault(ctx, s.workers[i]); err != nil {
				cancel(err)
			}
		})
	}
	faults.Wait()
	if err := s.q.WaitEmpty(ctx); err != nil {
		return err
	}
	// The frozen worker's late results may still be on their way.
	s.mu.Lock()
	frozen := s.workers[1]
	s.mu.Unlock()
	waitCtx, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	if err := s.until(waitCtx, func() bool { return len(frozen.jobs) == 0 }); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// victim is a worker that was struck in the middle of these jobs.
type victim struct {
	session string
	jobs    []string
	ended   func() (time.Time, error) // waits for the end of its session
}

// strike sends a worker a signal in the middle of a job. What it was in the middle
// of is what it said that it began and etcd shows as its claim; where that is nothing,
// the signal came between two jobs, and ok is false.
func (s *stage) strike(ctx context.Context, a *actor, sig syscall.Signal) (v victim, ok bool, err error) {
	if err := s.until(ctx, func() bool { return len(a.jobs) > 0 }); err != nil {
		return v, false, err
	}
	s.mu.Lock()
	v.session = a.session
	s.mu.Unlock()
	v.ended = s.watchEnd(ctx, v.session)
	if err := a.proc.Signal(sig); err != nil {
		return v, false, fmt.Errorf("signal a worker: %w", err)
	}
	for job, err := range s.q.List(ctx, workqueue.Filter{States: []workqueue.State{workqueue.StateClaimed, workqueue.StateOrphan}}) {
		if err != nil {
			return v, false, err
		}
		if job.Owner == v.session && s.began(a, job.ID) {
			v.jobs = append(v.jobs, job.ID)
		}
	}
	return v, len(v.jobs) > 0, nil
}

func (s *stage) began(a *actor, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.jobs[id]
}

// outlive waits for the end of a victim's session, and leaves it the jobs that its last
// writes, which were on their way when it was struck, have not ended. Where none is left
// it was between two jobs after all, and ok is false.
func (s *stage) outlive(ctx context.Context, v *victim) (ended time.Time, ok bool, err error) {
	if ended, err = v.ended(); err != nil {
		return ended, false, err
	}
	var left []string
	for _, id := range v.jobs {
		job, err := s.q.Get(ctx, id)
		if err != nil {
			return ended, false, err
		}
		if !slices.ContainsFunc(job.Attempts, func(a workqueue.Attempt) bool { return a.Owner == v.session && a.Outcome == "completed" }) {
			left = append(left, id)
		}
	}
	v.jobs = left
	return ended, len(left) > 0, nil
}

// runsAgain waits until one of the jobs runs elsewhere, and returns which.
func (s *stage) runsAgain(ctx context.Context, v victim) (id string, at time.Time, err error) {
	err = s.until(ctx, func() bool {
		for _, job := range v.jobs {
			if st := s.started[job]; st.session != v.session && st.attempt > 1 {
				id, at = job, st.at
				return true
			}
		}
		return false
	})
	return id, at, err
}

// kill kills a worker in the middle of its jobs, hires another in its place, and
// measures how soon after the end of its lease one of the jobs runs again.
func (s *stage) kill(ctx context.Context, a *actor) error {
	for {
		v, ok, err := s.strike(ctx, a, syscall.SIGKILL)
		if err != nil {
			return err
		}
		successor, err := s.hire()
		if err != nil {
			return err
		}
		if !ok {
			a = successor
			continue
		}
		s.o.Note("SIGKILL worker %d in the middle of %v", a.proc.PID(), v.jobs)
		ended, ok, err := s.outlive(ctx, &v)
		if err != nil {
			return err
		}
		if !ok {
			a = successor
			continue
		}
		id, at, err := s.runsAgain(ctx, v)
		if err != nil {
			return err
		}
		s.takeover = max(at.Sub(ended), 0)
		s.o.Note("%s of the killed worker runs again, %d ms after its lease ended", id, s.takeover.Milliseconds())
		return nil
	}
}

// freeze stops a worker past its lease, until its job runs elsewhere, and wakes it.
func (s *stage) freeze(ctx context.Context, a *actor) error {
	for {
		v, ok, err := s.strike(ctx, a, syscall.SIGSTOP)
		if err == nil && ok {
			s.o.Note("SIGSTOP worker %d in the middle of %v", a.proc.PID(), v.jobs)
			if _, ok, err = s.outlive(ctx, &v); err == nil && ok {
				_, _, err = s.runsAgain(ctx, v)
				s.o.Note("its lease is over and its job runs elsewhere: SIGCONT worker %d", a.proc.PID())
			}
		}
		if cerr := a.proc.Signal(syscall.SIGCONT); err != nil || ok {
			return errors.Join(err, cerr)
		}
	}
}

// watchEnd begins to watch a session's key; the function that it returns waits for
// its end and tells when that was.
func (s *stage) watchEnd(ctx context.Context, session string) func() (time.Time, error) {
	keys, err := keyspace.New(root)
	if err != nil {
		return func() (time.Time, error) { return time.Time{}, err }
	}
	watch := s.client.Watch(clientv3.WithRequireLeader(ctx), keys.Session(session), clientv3.WithFilterPut())
	return func() (time.Time, error) {
		for resp := range watch {
			if err := resp.Err(); err != nil {
				return time.Time{}, fmt.Errorf("watch session %s: %w", session, err)
			}
			if len(resp.Events) > 0 {
				return time.Now(), nil
			}
		}
		return time.Time{}, context.Cause(ctx)
	}
}

// progress tells how far it is, now and then.
func (s *stage) progress(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		p := Progress{Done: len(s.accepted), Jobs: s.o.Jobs, Running: len(s.running), Workers: s.o.Workers}
		s.mu.Unlock()
		s.o.Progress(p)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *stage) acceptedTwice() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	twice := 0
	for _, n := range s.accepted {
		if n > 1 {
			twice++
		}
	}
	return twice
}

// close ends all workers.
func (s *stage) close() {
	s.mu.Lock()
	workers := s.workers
	s.mu.Unlock()
	for _, a := range workers {
		_ = a.proc.Signal(syscall.SIGCONT)
		a.proc.Quit()
	}
	for _, a := range workers {
		a.proc.KillAfter(5 * time.Second)
	}
	s.wg.Wait()
}
