package workqueue

import (
	"context"
	"fmt"
	"time"

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
	s := Stats{Mode: modeClaim, Jobs: map[State]int{}}
	resp, err := q.store.Read(ctx,
		clientv3.OpGet(q.keys.Config()),
		clientv3.OpGet(q.keys.Workers(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(q.keys.DoneJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(q.keys.DeadJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 {
		c, err := decodeConfig(kvs[0].Value)
		if err != nil {
			return Stats{}, fmt.Errorf("read config of %s: %w", q.name, err)
		}
		s.Paused, s.PausedBy, s.PausedWhy, s.Revision = c.Paused, c.Actor, c.Reason, kvs[0].ModRevision
		if c.Mode == modeDispatch {
			s.Mode = modeDispatch
		}
	}
	s.Workers = int(resp.Responses[1].GetResponseRange().Count)
	s.Jobs[StateDone] = int(resp.Responses[2].GetResponseRange().Count)
	s.Jobs[StateDead] = int(resp.Responses[3].GetResponseRange().Count)
	live := []State{StateReady, StateScheduled, StateRetry, StateClaimed, StateOrphan}
	for job, err := range q.List(ctx, Filter{States: live}) {
		if err != nil {
			continue // it blocks nothing but itself, and doctor shows it
		}
		s.Jobs[job.State]++
		if job.State == StateReady && (s.Oldest.IsZero() || job.EnqueuedAt.Before(s.Oldest)) {
			s.Oldest = job.EnqueuedAt
		}
	}
	return s, ctx.Err()
}
