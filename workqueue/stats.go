package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	// PausedAt is when, by their clock; zero where that was not kept.
	PausedAt time.Time
	// Revision is the config's, to guard a change with; 0 when there is none yet.
	Revision int64
	// Jobs counts by state. Cancelled jobs count as done.
	Jobs map[State]int
	// Oldest is when the oldest ready job was enqueued, zero without one.
	Oldest time.Time
	// Workers is how many sessions serve the queue.
	Workers int
	// Claims counts the claimed jobs of each session, whether it lives or not.
	Claims map[string]int
	// Orphans are jobs whose owner's session is gone, by ID: some of them when there
	// are many.
	Orphans []string
	// OwnersUnknown tells that sessions may not be read, so that orphans count as
	// claimed.
	OwnersUnknown bool
	// Unreadable is how many of the records that were counted one by one cannot be
	// read: live ones, and by [Queue.StatsSince] those of jobs that are over too. Newer
	// is how many of these a newer program wrote, which can read them.
	Unreadable, Newer int
	// Recent is what happened of late; only [Queue.StatsSince] fills it.
	Recent struct {
		// Since is the time that was asked for.
		Since time.Time
		// Reaches is the end of the oldest job that is still kept in done, when that is
		// later than Since: what ended before it may be forgotten, and is not counted.
		// Zero otherwise.
		Reaches time.Time
		// Enqueued, Done, Cancelled and Dead count jobs that began or ended.
		Enqueued, Done, Cancelled, Dead int
		// Failed and Lost count attempts that ended so, Fenced late writes that were
		// refused, one for each job.
		Failed, Lost, Fenced int
		// RunP95 is the time that 95 of 100 completed attempts took at most; 0 without
		// one.
		RunP95 time.Duration
	}
}

// Stats counts what is in the queue. It reads the head of every live job, and counts
// the others; each group at one revision.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	c := counter{now: time.Now()}
	if err := q.count(ctx, &c); err != nil {
		return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
	}
	return c.stats, ctx.Err()
}

// StatsSince is Stats with what happened since then, as far as finished jobs and the
// evidence of refused writes are kept. It reads the head of these too.
func (q *Queue) StatsSince(ctx context.Context, since time.Time) (Stats, error) {
	c := counter{now: time.Now(), since: since}
	err := q.count(ctx, &c)
	if err == nil {
		err = q.countOver(ctx, &c)
	}
	if err != nil {
		return Stats{}, fmt.Errorf("count jobs of %s: %w", q.name, err)
	}
	return c.stats, ctx.Err()
}

// count counts what Stats has.
func (q *Queue) count(ctx context.Context, c *counter) error {
	resp, err := q.store.Read(ctx,
		clientv3.OpGet(q.keys.Config()),
		clientv3.OpGet(q.keys.Workers(), clientv3.WithPrefix()),
		clientv3.OpGet(q.keys.DoneJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(q.keys.DeadJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return err
	}
	s, err := settingsIn(resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return err
	}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if !decodeWorker(kv.Value).Left {
			s.Workers++
		}
	}
	s.Jobs = map[State]int{
		StateDone: int(resp.Responses[2].GetResponseRange().Count),
		StateDead: int(resp.Responses[3].GetResponseRange().Count),
	}
	s.Claims = map[string]int{}
	s.Recent.Since = c.since
	c.stats = s
	lives, rev, err := q.liveOwners(ctx)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrPermissionDenied) {
		// Somebody who may read this queue only: the numbers are worth more than nothing.
		c.stats.OwnersUnknown = true
		lives, rev, err = func(string, int64) bool { return true }, 0, nil
	}
	if err != nil {
		return err
	}
	return q.scanHeads(ctx, inJobs, q.keys.Jobs(), rev, c, func(h *head) { c.live(h, lives) })
}

// countOver counts what happened to jobs that are over.
func (q *Queue) countOver(ctx context.Context, c *counter) error {
	for where, prefix := range q.directories() {
		if where == inJobs {
			continue
		}
		if err := q.scanHeads(ctx, where, prefix, 0, c, func(h *head) { c.over(where, h) }); err != nil {
			return err
		}
	}
	c.finish()
	refusals, err := q.Refusals(ctx)
	for _, r := range refusals {
		if !r.At.Before(c.since) {
			c.stats.Recent.Fenced++
		}
	}
	return err
}

func (q *Queue) scanHeads(ctx context.Context, where place, prefix string, rev int64, c *counter, each func(*head)) error {
	_, err := q.store.Scan(ctx, prefix, rev, func(kvs []*mvccpb.KeyValue) bool {
		for _, kv := range kvs {
			h, err := q.txns.headOf(where, kv)
			if err == nil {
				each(&h)
				continue
			}
			c.stats.Unreadable++ // it blocks nothing but itself
			if errors.Is(err, ErrNewer) {
				c.stats.Newer++
			}
		}
		return true
	})
	return unreadable(prefix, err)
}

// maxOrphans is how many orphans Stats names.
const maxOrphans = 10

// counter makes Stats of heads. It is pure.
type counter struct {
	now    time.Time
	since  time.Time // zero: nothing of what happened is counted
	stats  Stats
	oldest time.Time // end of a job in done
	runs   []time.Duration
}

// live counts a job that is not over.
func (c *counter) live(h *head, lives func(string, int64) bool) {
	s := &c.stats
	state := h.state(inJobs, c.now, lives)
	s.Jobs[state]++
	switch state {
	case StateReady:
		if at := parseTime(h.enqueuedAt); !at.IsZero() && (s.Oldest.IsZero() || at.Before(s.Oldest)) {
			s.Oldest = at
		}
	case StateOrphan:
		if len(s.Orphans) < maxOrphans {
			s.Orphans = append(s.Orphans, string(h.id))
		}
	}
	if len(h.owner) > 0 {
		s.Claims[string(h.owner)]++
	}
	c.happened(h)
}

// over counts a job that is done, cancelled or dead.
func (c *counter) over(where place, h *head) {
	at := parseTime(h.finishedAt)
	if where == inDone && !at.IsZero() && (c.oldest.IsZero() || at.Before(c.oldest)) {
		c.oldest = at
	}
	c.happened(h)
	if at.Before(c.since) {
		return
	}
	r := &c.stats.Recent
	switch {
	case where == inDead:
		r.Dead++
	case string(h.outcome) == outcomeCancelled:
		r.Cancelled++
	default:
		r.Done++
	}
}

// happened counts what happened to a job since then.
func (c *counter) happened(h *head) {
	if c.since.IsZero() {
		return
	}
	r := &c.stats.Recent
	if at := parseTime(h.enqueuedAt); !at.Before(c.since) {
		r.Enqueued++
	}
	if h.lastEnd().Before(c.since) {
		return // the log is in order: nothing in it is newer
	}
	for _, a := range h.log() {
		if a.EndedAt.Before(c.since) {
			continue
		}
		switch a.Outcome {
		case outcomeFailed:
			r.Failed++
		case outcomeLost:
			r.Lost++
		case outcomeCompleted:
			c.runs = append(c.runs, a.EndedAt.Sub(a.ClaimedAt))
		}
	}
}

// finish ends the counting.
func (c *counter) finish() {
	r := &c.stats.Recent
	if c.oldest.After(c.since) {
		r.Reaches = c.oldest
	}
	if n := len(c.runs); n > 0 {
		slices.Sort(c.runs)
		r.RunP95 = c.runs[(n*95+99)/100-1]
	}
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
	s := Stats{Mode: ModeClaim, Paused: c.Paused, PausedBy: c.Actor, PausedWhy: c.Reason, PausedAt: c.At, Revision: rev}
	if c.Mode == ModeDispatch {
		s.Mode = ModeDispatch
	}
	return s, nil
}
