package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// naiveJob is the record of a job that nobody guards. Each change is a plain put.
type naiveJob struct {
	State string `json:"state"` // open, taken or done
	Agent string `json:"agent,omitempty"`
	// Run tells the runs of an agent apart.
	Run int `json:"run,omitempty"`
}

const (
	naiveOpen  = "open"
	naiveTaken = "taken"
	naiveDone  = "done"
)

// token names the run that a record is about.
func (j naiveJob) token() string { return fmt.Sprintf("%s/%d", j.Agent, j.Run) }

// naiveJobs is the prefix of the naive mode's jobs, which the library does not know.
func (t *trial) naiveJobs() string { return t.root + "naive/" }

func putNaive(ctx context.Context, c *clientv3.Client, key string, j naiveJob) error {
	value, err := json.Marshal(j)
	if err != nil {
		return err
	}
	// Unfenced, and that is the point: this is what the library has no way to do.
	_, err = c.Put(ctx, key, string(value))
	return err
}

// raceNaive lets the agents check and then act, until none finds an open job.
func (t *trial) raceNaive(ctx context.Context) error {
	for i := range t.s.Jobs {
		if err := putNaive(ctx, t.admin, t.naiveJobs()+jobID(i), naiveJob{State: naiveOpen}); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	nodes := make([]*node, len(t.agents))
	for i, a := range t.agents {
		n, err := t.newNode(ctx, a.name)
		if err != nil {
			return err
		}
		defer n.close()
		nodes[i] = n
		if _, err := n.client.Get(ctx, t.root, clientv3.WithCountOnly(), clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("connect %s: %w", a.name, err)
		}
	}
	t.start()
	var racing sync.WaitGroup
	errs := make([]error, len(t.agents))
	for i, a := range t.agents {
		racing.Go(func() { errs[i] = t.naiveLives(ctx, a, nodes[i]) })
	}
	racing.Wait()
	return errors.Join(errs...)
}

// naiveLives is an agent over its incarnations.
func (t *trial) naiveLives(ctx context.Context, a *agent, n *node) error {
	if !n.pause(ctx, t.s.scaled(t.plan.starts[a.index])) {
		return context.Cause(ctx)
	}
	for {
		err := t.naiveLife(ctx, a, n)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !n.crashed():
			return err
		case !t.scenario.restarts:
			return nil
		}
		if !sleep(ctx, t.s.scaled(t.plan.restart)) {
			return context.Cause(ctx)
		}
		if n, err = t.newNode(ctx, a.name); err != nil {
			return err
		}
		defer n.close()
	}
}

// naiveLife reads, waits, writes and works until no job is open.
func (t *trial) naiveLife(ctx context.Context, a *agent, n *node) error {
	for {
		job, err := t.firstOpen(n)
		if job == "" || err != nil {
			return err
		}
		taken := naiveJob{State: naiveTaken, Agent: a.name, Run: a.begun() + 1}
		if !n.pause(ctx, t.s.scaled(t.plan.gaps[a.index][(taken.Run-1)%t.s.Jobs])) {
			return errDied
		}
		if err := putNaive(n.life, n.client, t.naiveJobs()+job, taken); err != nil {
			return err
		}
		r := t.story.begin(a.name, job, taken.token())
		if err := a.work(ctx, n, r, func() effect { return effect{job: job} }); err != nil {
			t.story.end(r, lost)
			return err
		}
		done := naiveJob{State: naiveDone, Agent: a.name, Run: taken.Run}
		if err := putNaive(n.life, n.client, t.naiveJobs()+job, done); err != nil {
			t.story.end(r, lost)
			return err
		}
		t.story.end(r, saved)
	}
}

// begun is how many runs the agent has begun.
func (a *agent) begun() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs
}

// firstOpen is the first job, in list order, that is read as open, or "".
func (t *trial) firstOpen(n *node) (string, error) {
	resp, err := n.client.Get(n.life, t.naiveJobs(), clientv3.WithPrefix())
	if err != nil {
		return "", err
	}
	for _, kv := range resp.Kvs {
		var j naiveJob
		if err := json.Unmarshal(kv.Value, &j); err != nil {
			return "", fmt.Errorf("read %s: %w", kv.Key, err)
		}
		if j.State == naiveOpen {
			return strings.TrimPrefix(string(kv.Key), t.naiveJobs()), nil
		}
	}
	return "", nil
}
