package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Stats is what is in a queue.
type Stats struct {
	// Mode is how jobs are shared: claim or dispatch.
	Mode string
	// Paused tells that nothing is claimed; PausedBy and PausedWhy are of whoever
	// paused it last.
	Paused bool
	// PausedBy is who paused or resumed the queue last.
	PausedBy string
	// PausedWhy is why.
	PausedWhy string
	// Revision is the config's, to guard a change with; 0 when there is none yet.
	Revision int64
	// Jobs counts by state. Cancelled jobs count as done.
	Jobs map[State]int
	// Oldest is when the oldest ready job was enqueued, zero without one.
	Oldest time.Time
	// Workers is how many sessions serve the queue.
	Workers int
}

// Stats counts what is in the queue. It reads every live job, and counts the
// others; each group at one revision.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	resp, err := q.store.Read(ctx,
		clientv3.OpGet(q.keys.Config()),
		clientv3.OpGet(q.keys.Workers(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(q.keys.DoneJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(q.keys.DeadJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
	}
	s, err := settingsIn(resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
	}
	s.Jobs = map[State]int{}
	s.Workers = int(resp.Responses[1].GetResponseRange().Count)
	s.Jobs[StateDone] = int(resp.Responses[2].GetResponseRange().Count)
	s.Jobs[StateDead] = int(resp.Responses[3].GetResponseRange().Count)
	live := []State{StateReady, StateScheduled, StateRetry, StateClaimed, StateOrphan}
	for job, err := range q.List(ctx, Filter{States: live}) {
		if errors.Is(err, ErrUndecodable) {
			continue // it blocks nothing but itself, and Undecodable shows it
		}
		if err != nil {
			return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
		}
		s.Jobs[job.State]++
		if job.State == StateReady && (s.Oldest.IsZero() || job.EnqueuedAt.Before(s.Oldest)) {
			s.Oldest = job.EnqueuedAt
		}
	}
	return s, ctx.Err()
}

// Settings is the part of [Queue.Stats] that the queue's config says, for one small
// read: mode, pause and revision. Nothing is counted.
func (q *Queue) Settings(ctx context.Context) (Stats, error) {
	resp, err := q.store.Get(ctx, q.keys.Config())
	if err != nil {
		return Stats{}, fmt.Errorf("read config of %s: %w", q.name, err)
	}
	s, err := settingsIn(resp.Kvs)
	if err != nil {
		return Stats{}, fmt.Errorf("queue %s: %w", q.name, err)
	}
	return s, nil
}

// settingsIn reads what a get of the config found.
func settingsIn(kvs []*mvccpb.KeyValue) (Stats, error) {
	c, rev, err := configIn(kvs)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Mode: modeClaim, Paused: c.Paused, PausedBy: c.Actor, PausedWhy: c.Reason, Revision: rev}
	if c.Mode == modeDispatch {
		s.Mode = modeDispatch
	}
	return s, nil
}
