package simulate

import (
	"context"
	"slices"
	"sync"
	"time"
)

// ending is how a run ended.
type ending string

const (
	running ending = "running"
	saved   ending = "saved"   // its result was accepted
	refused ending = "refused" // it reached its end, and its result was turned away
	lost    ending = "lost"    // it never reached its end, or nobody learnt of it
)

// run is one run of one job by one agent.
type run struct {
	agent, job string
	token      string // of the claim that it is for
	began      time.Time
	over       time.Time // zero while it runs
	reached    bool      // its end, whatever became of the result
	handedIn   time.Time // when it reached its end
	ending     ending
	duplicate  bool // its result was accepted although the job had one
	struck     bool // the fault met it
	note       string
}

// moment is something that happened to an agent.
type moment struct {
	at         time.Time
	agent, job string
	kind       kind
}

// kind is what happened at a moment.
type kind string

const (
	claimed    kind = "claimed"
	leaseEnded kind = "lease ended"
	crashed    kind = "crashed"
	frozen     kind = "frozen"
	woken      kind = "woken"
	cutOff     kind = "cut off"
	healed     kind = "healed"
	turnedAway kind = "refused"
	tookOver   kind = "took over"
	led        kind = "leads"
)

// chronicle is what happened in one trial: the truth of etcd, and what only the
// agents know. Safe for concurrent use.
type chronicle struct {
	mu      sync.Mutex
	changed chan struct{} // closed and renewed at every change

	truth     *truth
	began     time.Time
	runs      []*run
	moments   []moment
	struck    *run // the run that the fault met first
	struckAt  time.Time
	refusals  int
	lostRaces int
	claimTime time.Duration
	leaders   []string       // sessions that became dispatcher, in order
	lateLanes map[string]int // batches of a deposed dispatcher that arrived late, by lane owner
	lateWrote int            // late assignments that changed a job
}

func newChronicle(jobs int) *chronicle {
	return &chronicle{changed: make(chan struct{}), truth: newTruth(jobs), lateLanes: map[string]int{}}
}

// do changes the chronicle and wakes those who wait.
func (c *chronicle) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// until blocks until cond, which is called with mu held, holds, or ctx ends.
func (c *chronicle) until(ctx context.Context, cond func() bool) error {
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start begins the trial's time.
func (c *chronicle) start() { c.do(func() { c.began = time.Now() }) }

// begin notes that an agent starts to work a job under a claim.
func (c *chronicle) begin(agent, job, token string) *run {
	r := &run{agent: agent, job: job, token: token, began: time.Now(), ending: running}
	c.do(func() { c.runs = append(c.runs, r) })
	return r
}

// strike notes that the fault meets a run.
func (c *chronicle) strike(r *run, what kind) {
	c.do(func() {
		now := time.Now()
		r.struck = true
		if c.struck == nil {
			c.struck, c.struckAt = r, now
		}
		c.moments = append(c.moments, moment{now, r.agent, r.job, what})
	})
}

// mark notes something that happened to an agent, whatever it works.
func (c *chronicle) mark(agent string, what kind) {
	c.do(func() { c.moments = append(c.moments, moment{time.Now(), agent, "", what}) })
}

// reach notes that a run reached its end: now its result is handed in.
func (c *chronicle) reach(r *run) { c.do(func() { r.reached, r.handedIn = true, time.Now() }) }

// end notes how a run ended.
func (c *chronicle) end(r *run, how ending) {
	c.do(func() { c.endLocked(r, how) })
}

func (c *chronicle) endLocked(r *run, how ending) {
	if r.ending != running {
		return
	}
	r.over, r.ending = time.Now(), how
	if how == refused {
		c.refusals++
		c.moments = append(c.moments, moment{r.over, r.agent, r.job, turnedAway})
	}
}

// runOf finds the run of a claim, which may not have begun. Called with mu held.
func (c *chronicle) runOf(job, token string) *run {
	i := slices.IndexFunc(c.runs, func(r *run) bool { return r.job == job && r.token == token })
	if i < 0 {
		return nil
	}
	return c.runs[i]
}

// taken tells that a struck run's job was claimed anew. Called with mu held.
func (c *chronicle) taken(r *run) bool {
	j := c.truth.jobs[r.job]
	return j.finished() || j.owner != "" && j.token != r.token
}

// redone tells that a struck run's job has a result of another run. Called with mu
// held.
func (c *chronicle) redone(r *run) bool { return c.truth.jobs[r.job].finished() }

// settled tells that all jobs are finished and the fault's story is over: whoever
// was away and lives has handed in what it had. Called with mu held.
func (c *chronicle) settled() bool {
	for _, r := range c.runs {
		if r.struck && r.ending == running {
			return false
		}
	}
	return c.truth.finished()
}
