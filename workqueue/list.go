package workqueue

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/internal/usercode"
)

// Filter selects jobs for [Queue.List]. The zero value selects all.
type Filter struct {
	// States selects by state; empty means all.
	States []State
	// Kind selects one kind; "" means all.
	Kind string
	// ID selects the one job of that ID, where it is in a queue; "" means all. Nothing
	// else is read.
	ID string
	// Labels must all be there with these values.
	Labels map[string]string
	// Match, where it is not nil, must hold for the job too. It is asked only about jobs
	// that the rest selects, in no order, and must not keep them.
	Match func(*Job) bool
	// Limit ends the listing after so many jobs; 0 means all. The first ones in the
	// order of [Queue.List] are yielded, and no more than those are kept in memory.
	Limit int
	// Read, where it is not nil, is raised by the number of records that were read.
	Read *int
}

func (f Filter) validate() error {
	for _, s := range f.States {
		if !slices.Contains(allStates, s) {
			return &coord.InputError{Field: "state", Value: string(s), Reason: fmt.Sprintf("it is one of %v", allStates)}
		}
	}
	if f.Limit < 0 {
		return &coord.InputError{Field: "limit", Value: fmt.Sprint(f.Limit), Reason: "it is not negative"}
	}
	return nil
}

var allStates = []State{StateReady, StateScheduled, StateRetry, StateClaimed, StateOrphan, StateDone, StateDead, StateCancelled}

func (f Filter) wants(where job.Place) bool {
	if len(f.States) == 0 {
		return true
	}
	return slices.ContainsFunc(f.States, func(s State) bool {
		switch where {
		case job.InDead:
			return s == StateDead
		case job.InDone:
			return s == StateDone || s == StateCancelled
		}
		return s.Live()
	})
}

// wantsOwners tells whether it matters who is alive: without it, sessions need not be
// readable.
func (f Filter) wantsOwners(where job.Place) bool {
	return where == job.InJobs && (len(f.States) == 0 || slices.Contains(f.States, StateClaimed) || slices.Contains(f.States, StateOrphan))
}

// wantsHead tells what the head alone can tell.
func (f Filter) wantsHead(h *job.Head, s State) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, s)) && (f.Kind == "" || f.Kind == string(h.Kind)) &&
		(f.ID == "" || f.ID == string(h.ID))
}

// wantsJob tells the rest.
func (f Filter) wantsJob(j *Job) bool {
	for k, v := range f.Labels {
		if got, ok := j.Labels[k]; !ok || got != v {
			return false
		}
	}
	return f.Match == nil || f.Match(j)
}

// byHead tells that the head alone decides.
func (f Filter) byHead() bool { return len(f.Labels) == 0 && f.Match == nil }

// List yields the jobs that the filter selects: live ones in the queue's order,
// then dead, then done and cancelled ones by ID, as they were at one revision.
// Payloads that lie beside their record are left out. A record that
// cannot be read is yielded as an error, which matches [ErrUndecodable], and the
// listing goes on; any other error ends it.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[*Job, error] {
	return listJobs(ctx, q.core.Store, []string{q.core.Name()}, f)
}

// List is [Queue.List] of several queues, one after the other; the limit is one for
// all. Of a queue that is not there nothing is yielded.
func (qs Queues) List(ctx context.Context, names []string, f Filter) iter.Seq2[*Job, error] {
	store, err := queue.OpenStore(qs.Client, qs.Root, names...)
	if err != nil {
		return func(yield func(*Job, error) bool) { yield(nil, fmt.Errorf("list jobs: %w", err)) }
	}
	return listJobs(ctx, store, names, f)
}

func listJobs(ctx context.Context, store *etcdkv.Store, queues []string, f Filter) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		if err := f.validate(); err != nil {
			yield(nil, fmt.Errorf("list jobs of %s: %w", queue.NamesText(queues), err))
			return
		}
		limit := f.Limit
		for all := listings(store.Keys(), queues, f); len(all) > 0; {
			read := 0
			if err := usercode.Call(func() (err error) { // it asks f.Match
				read, err = readListings(ctx, store, all[:min(len(all), 3*queue.QueuesAtOnce)], limit)
				return err
			}); err != nil {
				yield(nil, fmt.Errorf("list jobs of %s: %w", queue.NamesText(queues), err))
				return
			}
			for i := range read {
				n, more := all[i].yield(limit, yield)
				if !more {
					return
				}
				if f.Limit > 0 {
					if limit -= n; limit <= 0 {
						return
					}
				}
				all[i] = nil // what has been yielded need not be kept
			}
			all = all[read:]
		}
	}
}

// readListings reads what can be yielded, at one revision, and returns of how many
// listings: with a limit only as many as it takes.
func readListings(ctx context.Context, store *etcdkv.Store, all []*listing, limit int) (read int, err error) {
	lives, rev, err := owners(ctx, store, all)
	if err != nil {
		return 0, err
	}
	reading, enough := context.WithCancel(ctx)
	defer enough()
	kept := 0 // by the listings before the one that is read
	_, err = store.ScanEach(reading, prefixesOf(all), rev, func(i int, kvs []*mvccpb.KeyValue) bool {
		if reading.Err() != nil {
			return false
		}
		if i >= read { // another one begins
			if i > 0 {
				kept += len(all[i-1].rows)
			}
			if limit > 0 && kept >= limit {
				enough()
				return false
			}
			all[i].limit, all[i].lives, read = limit, lives, i+1
		}
		for _, kv := range kvs {
			all[i].take(kv)
		}
		return !all[i].full()
	})
	if err != nil && (ctx.Err() != nil || reading.Err() == nil) {
		return 0, err
	}
	return read, nil
}

// listing is one directory of a list.
type listing struct {
	queue.Directory
	f     Filter
	limit int // 0: all
	now   time.Time
	lives func(string, int64) bool

	rows rows
	errs []error
}

// row is a job of a listing: its record, or what was made of it already.
type row struct {
	kv   *mvccpb.KeyValue
	rank job.Rank
	job  *Job
}

// listings are the directories that can have what the filter wants.
func listings(keys keyspace.Keyspace, queues []string, f Filter) (all []*listing) {
	now := time.Now()
	for _, name := range queues {
		for _, d := range queue.DirectoriesOf(keys, name) {
			if f.ID != "" {
				d.Prefix = d.Txns.Key(d.Where, f.ID) // others that begin like it are told by their heads
			}
			if f.wants(d.Where) {
				all = append(all, &listing{Directory: d, f: f, now: now})
			}
		}
	}
	return all
}

func prefixesOf(all []*listing) (prefixes []string) {
	for _, l := range all {
		prefixes = append(prefixes, l.Prefix)
	}
	return prefixes
}

// owners reads who is alive, where that matters, and at which revision; otherwise
// sessions need not be readable.
func owners(ctx context.Context, store *etcdkv.Store, all []*listing) (func(string, int64) bool, int64, error) {
	if !slices.ContainsFunc(all, func(l *listing) bool { return l.f.wantsOwners(l.Where) }) {
		return queue.Nobody, 0, nil
	}
	return queue.LiveOwners(ctx, store) // at that revision: no owner came or went in between
}

// full tells that nothing better can come: dead and done jobs come in their order.
func (l *listing) full() bool { return l.limit > 0 && l.Where != job.InJobs && len(l.rows) >= l.limit }

func (l *listing) take(kv *mvccpb.KeyValue) {
	if l.full() {
		return
	}
	if l.f.Read != nil {
		*l.f.Read++
	}
	h, err := l.Txns.HeadOf(l.Where, kv)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read %s: %w", kv.Key, err))
		return
	}
	if !l.f.wantsHead(&h, State(h.State(l.Where, l.now, l.lives))) {
		return
	}
	rank := h.Rank(kv)
	if l.hopeless(rank) {
		return
	}
	r := row{kv: kv, rank: rank}
	if !l.f.byHead() {
		if r.job, err = l.decode(kv); err != nil {
			l.errs = append(l.errs, err)
			return
		}
		if !l.f.wantsJob(r.job) {
			return
		}
	}
	l.add(r)
}

// hopeless tells that the limit is reached by better ones.
func (l *listing) hopeless(r job.Rank) bool {
	return l.Where == job.InJobs && l.limit > 0 && len(l.rows) >= l.limit && !r.Before(l.rows[0].rank)
}

// add keeps a row. With a limit, the rows of live jobs are a heap with the worst one on
// top, which makes room.
func (l *listing) add(r row) {
	switch {
	case l.Where != job.InJobs || l.limit == 0:
		l.rows = append(l.rows, r)
	case len(l.rows) < l.limit:
		heap.Push(&l.rows, r)
	default:
		l.rows[0] = r
		heap.Fix(&l.rows, 0)
	}
}

// rows is a heap, the last one in the queue's order on top.
type rows []row

func (r rows) Len() int           { return len(r) }
func (r rows) Less(i, j int) bool { return r[j].rank.Before(r[i].rank) }
func (r rows) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rows) Push(x any)        { *r = append(*r, x.(row)) }
func (r *rows) Pop() any          { panic("rows only grow") }

func (l *listing) decode(kv *mvccpb.KeyValue) (*Job, error) {
	r, err := l.Txns.Decode(l.Where, kv)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kv.Key, err)
	}
	return view(r, l.Queue, l.Where, kv.ModRevision, l.now, l.lives), nil
}

// yield hands the directory on, up to limit jobs: how many, and whether the caller wants more.
func (l *listing) yield(limit int, yield func(*Job, error) bool) (n int, more bool) {
	for _, err := range l.errs {
		if !yield(nil, err) {
			return 0, false
		}
	}
	if l.Where == job.InJobs {
		slices.SortFunc(l.rows, func(a, b row) int {
			if a.rank.Before(b.rank) {
				return -1
			}
			return 1
		})
	}
	for i, r := range l.rows {
		if limit > 0 && n >= limit {
			return n, true
		}
		l.rows[i] = row{} // what has been yielded need not be kept
		var err error
		if r.job == nil {
			r.job, err = l.decode(r.kv)
		}
		if err == nil {
			n++
		}
		if !yield(r.job, err) {
			return n, false
		}
	}
	return n, true
}
