package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Stats is what is in a queue.
type Stats struct {
	// Queue is the queue's name.
	Queue string
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
	// Settings are the queue's: see [workqueue.Queue.SetSettings]. All else in it is zero.
	Settings workqueue.Config
	// SettingsErr names the settings that cannot be read or are out of bounds: nobody
	// goes by them.
	SettingsErr error
	// SetBy is who set the mode or the settings last.
	SetBy string
	// SetWhy is why.
	SetWhy string
	// SetAt is when, by their clock; zero where nobody did.
	SetAt time.Time
	// Revision is the config's, to guard a change with; 0 when there is none yet.
	Revision int64
	// Jobs counts by state. Cancelled jobs count as done.
	Jobs map[workqueue.State]int
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
	// read: live ones, and with what happened those of jobs that are over too. Keys
	// that no program puts there are none. Newer is how many of them a newer program
	// wrote, which can read them.
	Unreadable, Newer int
	// Recent is what happened of late; only [CountSince] and [CountAll]
	// fill it.
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

// Count counts what is in the queue. It reads the head of every live job, and counts
// the others; each group at one revision.
func Count(ctx context.Context, q *workqueue.Queue) (Stats, error) {
	return CountSince(ctx, q, time.Time{})
}

// CountSince is Stats with what happened since then, as far as finished jobs and the
// evidence of refused writes are kept. It reads the head of these too.
func CountSince(ctx context.Context, q *workqueue.Queue, since time.Time) (s Stats, err error) {
	for s, err = range statsOf(ctx, coreOf(q).Store, []string{coreOf(q).Name()}, since) { // there is one
	}
	return s, err
}

// CountAll yields the [CountSince] of several queues, in their order; the zero time
// leaves out what happened. A config that cannot be read is yielded as an error, which
// matches [workqueue.ErrUndecodable], and the counting goes on; any other error ends it.
func CountAll(ctx context.Context, qs workqueue.Queues, names []string, since time.Time) iter.Seq2[Stats, error] {
	store, err := queue.OpenStore(qs.Client, qs.Root, names...)
	if err != nil {
		return func(yield func(Stats, error) bool) { yield(Stats{}, fmt.Errorf("count jobs: %w", err)) }
	}
	return statsOf(ctx, store, names, since)
}

func statsOf(ctx context.Context, store *etcdkv.Store, queues []string, since time.Time) iter.Seq2[Stats, error] {
	return func(yield func(Stats, error) bool) {
		for group := range slices.Chunk(queues, queue.QueuesAtOnce) {
			counters, err := countQueues(ctx, store, group, since)
			if err != nil {
				yield(Stats{}, fmt.Errorf("count jobs of %s: %w", queue.NamesText(queues), err))
				return
			}
			for _, c := range counters {
				if c.err != nil {
					c.err = fmt.Errorf("count jobs of queue %s: %w", c.stats.Queue, c.err)
				}
				if !yield(c.stats, c.err) {
					return
				}
			}
		}
	}
}

// countQueues counts what is in some queues, and with since what happened.
func countQueues(ctx context.Context, store *etcdkv.Store, queues []string, since time.Time) ([]*counter, error) {
	all, err := readSettings(ctx, store, queues, since)
	if err != nil {
		return nil, err
	}
	lives, rev, err := queue.LiveOwners(ctx, store)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrPermissionDenied) {
		// Somebody who may read this queue only: the numbers are worth more than nothing.
		for _, c := range all {
			c.stats.OwnersUnknown = true
		}
		lives, rev, err = func(string, int64) bool { return true }, 0, nil
	}
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, c := range all {
		if c.err == nil { // nothing is counted of a queue that nobody can serve
			parts = append(parts, c.parts(store.Keys(), lives)...)
		}
	}
	var prefixes []string
	for _, p := range parts {
		prefixes = append(prefixes, p.prefix)
	}
	_, err = store.ScanEach(ctx, prefixes, rev, func(i int, kvs []*mvccpb.KeyValue) bool {
		for _, kv := range kvs {
			parts[i].take(kv)
		}
		return true
	})
	for _, c := range all {
		c.finish()
	}
	return all, err
}

const (
	// settingsGets is how many gets tell the settings of one queue.
	settingsGets = 4
	// settingsAtOnce is of how many queues they are read with one request, which has
	// room for 128 gets.
	settingsAtOnce = 16
)

// readSettings reads configs and registrations, and counts what need not be looked at.
func readSettings(ctx context.Context, store *etcdkv.Store, queues []string, since time.Time) (all []*counter, err error) {
	now := time.Now()
	for group := range slices.Chunk(queues, settingsAtOnce) {
		var gets []clientv3.Op
		for _, name := range group {
			q := store.Keys().Queue(name)
			gets = append(gets, clientv3.OpGet(q.Config()),
				clientv3.OpGet(q.Workers(), clientv3.WithPrefix()),
				clientv3.OpGet(q.DoneJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
				clientv3.OpGet(q.DeadJobs(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
		}
		resp, err := store.Read(ctx, gets...)
		if err != nil {
			return nil, err
		}
		for i, name := range group {
			c := &counter{now: now, since: since}
			got := resp.Responses[settingsGets*i:]
			c.stats, c.err = settingsIn(got[0].GetResponseRange().Kvs)
			c.stats.Queue, c.stats.Claims, c.stats.Recent.Since = name, map[string]int{}, since
			for _, kv := range got[1].GetResponseRange().Kvs {
				if !job.DecodeWorker(kv.Value).Left {
					c.stats.Workers++
				}
			}
			c.stats.Jobs = map[workqueue.State]int{workqueue.StateDone: int(got[2].GetResponseRange().Count), workqueue.StateDead: int(got[3].GetResponseRange().Count)}
			all = append(all, c)
		}
	}
	return all, nil
}

// part is a directory that is counted, and how.
type part struct {
	prefix string
	take   func(*mvccpb.KeyValue)
}

// parts are the directories that the counter has to see.
func (c *counter) parts(keys keyspace.Keyspace, lives func(string, int64) bool) (parts []part) {
	for _, d := range queue.DirectoriesOf(keys, c.stats.Queue) {
		if d.Where != job.InJobs && c.since.IsZero() {
			continue
		}
		parts = append(parts, part{d.Prefix, func(kv *mvccpb.KeyValue) {
			h, err := d.Txns.HeadOf(d.Where, kv)
			switch {
			case err != nil && !oursIn(keys, kv):
			case err != nil:
				c.unread(err)
			case d.Where == job.InJobs:
				c.live(&h, lives)
			default:
				c.over(d.Where, &h)
			}
		}})
	}
	if !c.since.IsZero() {
		parts = append(parts, part{keys.Queue(c.stats.Queue).RefusedWrites(), func(kv *mvccpb.KeyValue) {
			if _, r, ok := job.RefusalIn(keys, kv); ok && !r.At.Before(c.since) {
				c.stats.Recent.Fenced++
			}
		}})
	}
	return parts
}

// oursIn tells whether a key is one that a program could have put there: all others are
// no records that cannot be read, but foreign keys.
func oursIn(keys keyspace.Keyspace, kv *mvccpb.KeyValue) bool {
	p, ok := keys.Parse(string(kv.Key))
	return ok && keyspace.ValidateName("id", p.ID) == nil
}

// maxOrphans is how many orphans Stats names.
const maxOrphans = 10

// counter makes Stats of heads. It is pure.
type counter struct {
	now    time.Time
	since  time.Time // zero: nothing of what happened is counted
	stats  Stats
	err    error     // the config cannot be read
	oldest time.Time // end of a job in done
	runs   []time.Duration
}

// unread counts a record that cannot be read: it blocks nothing but itself.
func (c *counter) unread(err error) {
	c.stats.Unreadable++
	if errors.Is(err, workqueue.ErrNewer) {
		c.stats.Newer++
	}
}

// live counts a job that is not over.
func (c *counter) live(h *job.Head, lives func(string, int64) bool) {
	s := &c.stats
	state := workqueue.State(h.State(job.InJobs, c.now, lives))
	s.Jobs[state]++
	switch state {
	case workqueue.StateReady:
		if at := job.ParseTime(h.EnqueuedAt); !at.IsZero() && (s.Oldest.IsZero() || at.Before(s.Oldest)) {
			s.Oldest = at
		}
	case workqueue.StateOrphan:
		if len(s.Orphans) < maxOrphans {
			s.Orphans = append(s.Orphans, string(h.ID))
		}
	}
	if len(h.Owner) > 0 {
		s.Claims[string(h.Owner)]++
	}
	c.happened(h)
}

// over counts a job that is done, cancelled or dead.
func (c *counter) over(where job.Place, h *job.Head) {
	at := job.ParseTime(h.FinishedAt)
	if where == job.InDone && !at.IsZero() && (c.oldest.IsZero() || at.Before(c.oldest)) {
		c.oldest = at
	}
	c.happened(h)
	if at.Before(c.since) {
		return
	}
	r := &c.stats.Recent
	switch {
	case where == job.InDead:
		r.Dead++
	case string(h.Outcome) == job.OutcomeCancelled:
		r.Cancelled++
	default:
		r.Done++
	}
}

// happened counts what happened to a job since then.
func (c *counter) happened(h *job.Head) {
	if c.since.IsZero() {
		return
	}
	r := &c.stats.Recent
	if at := job.ParseTime(h.EnqueuedAt); !at.Before(c.since) {
		r.Enqueued++
	}
	if h.LastEnd().Before(c.since) {
		return // the log is in order: nothing in it is newer
	}
	for _, a := range h.Log() {
		if a.EndedAt.Before(c.since) {
			continue
		}
		switch a.Outcome {
		case job.OutcomeFailed:
			r.Failed++
		case job.OutcomeLost:
			r.Lost++
		case job.OutcomeCompleted:
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

// Settings is the part of [Count] that the queue's config says, for one small
// read: mode, pause, settings and revision. Nothing is counted.
func Settings(ctx context.Context, q *workqueue.Queue) (Stats, error) {
	resp, err := coreOf(q).Store.Get(ctx, coreOf(q).Keys().Config())
	if err != nil {
		return Stats{}, fmt.Errorf("read config of %s: %w", coreOf(q).Name(), err)
	}
	s, err := settingsIn(resp.Kvs)
	if err != nil {
		return Stats{}, fmt.Errorf("queue %s: %w", coreOf(q).Name(), err)
	}
	return s, nil
}

// settingsIn reads what a get of the config found.
func settingsIn(kvs []*mvccpb.KeyValue) (Stats, error) {
	c, rev, err := job.ConfigIn(kvs)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Mode: workqueue.ModeClaim, Paused: c.Paused, PausedBy: c.Actor, PausedWhy: c.Reason, PausedAt: c.At, Revision: rev, SetBy: c.SetBy, SetWhy: c.SetReason, SetAt: c.SetAt}
	set, err := c.Settings()
	s.Settings = workqueue.Config{Retention: set.Retention, RetainJobs: set.RetainJobs, RetainBytes: set.RetainBytes, Backoff: workqueue.Backoff(set.Backoff)}
	s.SettingsErr = err
	if c.Mode == workqueue.ModeDispatch {
		s.Mode = workqueue.ModeDispatch
	}
	return s, nil
}
