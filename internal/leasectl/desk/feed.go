package desk

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/top"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	// lookEvery is the shortest rest between two looks, lookIdle the longest. A look rests at least restFactor times as
	// long as it took: the more there is to count, the less often etcd is asked to.
	lookEvery  = 500 * time.Millisecond
	lookIdle   = 5 * time.Second
	restFactor = 4
	// lookTimeout bounds a look at very much; that etcd does not answer at all is found out by its first question.
	lookTimeout = time.Minute
	// blindRest is the rest after a look that failed, or a watch that broke.
	blindRest = time.Second
)

// topDesk is what the screen of top looks at and acts through. What the loaders have to say does not go to the terminal,
// which the screen has, but onto the screen.
type topDesk struct {
	a     *cli.App // quiet
	c     *connect.Conn
	store *etcdkv.Store
	notes *noteBox

	next    atomic.Int64  // the revision that is watched from
	changed chan struct{} // something has happened since the last look
	rewound chan struct{} // the store went back: the watch has to begin again
	took    time.Duration // the first look
}

func withDesk(ctx context.Context, a *cli.App, f func(*topDesk) error) error {
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		store := c.Store()
		d := &topDesk{c: c, store: store, notes: &noteBox{}, changed: make(chan struct{}, 1), rewound: make(chan struct{}, 1)}
		quiet := *a
		quiet.Err = d.notes
		d.a = &quiet
		return f(d)
	})
}

// noteBox keeps the lines that are written to it.
type noteBox struct {
	mu    sync.Mutex
	lines []string
}

func (b *noteBox) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(p) {
		text := strings.TrimPrefix(strings.TrimSpace(string(line)), "warning: ")
		if !slices.Contains(b.lines, text) && len(b.lines) < 10 {
			b.lines = append(b.lines, text)
		}
	}
	return len(p), nil
}

func (b *noteBox) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

// look reads everything that the screen counts.
func (d *topDesk) look(ctx context.Context) (top.Look, error) {
	began := time.Now()
	rev, err := d.revision(ctx)
	if err != nil {
		return top.Look{}, err
	}
	d.next.CompareAndSwap(0, rev+1)
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	queues, broken, err := look.ReadQueues(ctx, d.a, d.c)
	if err != nil {
		return top.Look{}, err
	}
	workers, err := look.ReadWorkers(ctx, d.a, d.c, queues)
	if err == nil {
		err = look.AddLeases(ctx, d.c, workers)
	}
	if err != nil {
		return top.Look{}, err
	}
	l := top.Look{Revision: rev, Notes: d.notes.take()}
	concurrency := map[string]int{}
	for _, w := range workers {
		l.Workers = append(l.Workers, topWorker(w))
		for _, q := range w.Queues {
			concurrency[q.Queue] += q.Concurrency
		}
	}
	for _, q := range queues {
		rev, err := strconv.ParseInt(q.Revision, 10, 64)
		if err != nil {
			return l, fmt.Errorf("config revision %q of queue %s: %w", q.Revision, q.Name, err)
		}
		t := topQueue(q, rev)
		t.Concurrency = concurrency[q.Name]
		l.Queues = append(l.Queues, t)
	}
	l.At = time.Now()
	d.took = l.At.Sub(began)
	for _, p := range append(look.BrokenConfigs(broken), look.Problems(queues, l.At)...) {
		l.Problems = append(l.Problems, top.Problem(p))
	}
	return l, nil
}

// revision is that of the store. It is the question that tells whether etcd answers.
func (d *topDesk) revision(ctx context.Context) (int64, error) {
	ctx, cancel := d.a.Bounded(ctx)
	defer cancel()
	resp, err := d.store.Get(ctx, d.store.Keys().Queues(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", d.store.Keys().Queues(), err)
	}
	return resp.Header.Revision, nil
}

// lookAgain looks until ctx ends: soon after something has happened, and after a while when nothing has.
func (d *topDesk) lookAgain(ctx context.Context, r *top.Recorder) {
	rest := max(lookEvery, restFactor*d.took)
	for d.rest(ctx, rest) {
		next := d.next.Load()
		l, err := d.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.Blind(d.Explain(err))
			rest = blindRest
			continue
		case l.Revision < next-1: // restored from a backup
			select {
			case d.rewound <- struct{}{}:
			default:
			}
		}
		r.Looked(l)
		rest = max(lookEvery, restFactor*d.took)
	}
}

// rest waits at least so long, and then until something happens or has not for a while. It tells whether to go on.
func (d *topDesk) rest(ctx context.Context, least time.Duration) bool {
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	timer.Reset(max(lookIdle-least, 0))
	select {
	case <-ctx.Done():
		return false
	case <-d.changed:
	case <-timer.C:
	}
	return true
}

// follow watches until ctx ends.
func (d *topDesk) follow(ctx context.Context, r *top.Recorder) {
	for {
		r.Runs(d.claimed(ctx))
		why := d.watch(ctx, r)
		if ctx.Err() != nil {
			return
		}
		r.Watching(why)
		timer := time.NewTimer(blindRest)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// watch watches from the next revision on, and returns why it ended.
func (d *topDesk) watch(ctx context.Context, r *top.Recorder) (why string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := d.store.Watch(ctx, d.store.Keys().Root(), d.next.Load(), clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	for {
		select {
		case <-d.rewound:
			d.again(ctx, r)
			return "the store went back to an older revision"
		case resp, open := <-responses:
			switch {
			case !open:
				return "the watch broke"
			case resp.CompactRevision != 0:
				d.again(ctx, r)
				return "etcd has compacted what was not seen yet"
			case resp.Err() != nil:
				return exit.Text(resp.Err())
			}
			r.Watching("")
			d.happened(r, resp.Events)
		}
	}
}

// again begins anew at what is now, since what happened before cannot be seen any more.
func (d *topDesk) again(ctx context.Context, r *top.Recorder) {
	rev, err := d.revision(ctx)
	if err != nil {
		return // the next watch ends as this one did
	}
	d.next.Store(rev + 1)
	r.Missed()
}

func (d *topDesk) happened(r *top.Recorder, seen []*clientv3.Event) {
	if len(seen) == 0 {
		return
	}
	var told []top.Event
	for _, e := range (events.Options{}).Pick(d.store.Keys(), seen) {
		told = append(told, topEvent(e))
	}
	r.Happened(told)
	d.next.Store(seen[len(seen)-1].Kv.ModRevision + 1)
	select {
	case d.changed <- struct{}{}:
	default: // a look is due anyway
	}
}

// maxClaimed is how many of the jobs that run are asked for when the watch begins.
const maxClaimed = 1000

// claimed lists jobs that run. Without them the screen only knows of those that are claimed from now on.
func (d *topDesk) claimed(ctx context.Context) (running []top.Job) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := filter.Selection{States: []string{string(workqueue.StateClaimed), string(workqueue.StateOrphan)}, Limit: maxClaimed, Limited: true}
	if err := s.Parse(nil); err != nil {
		panic(err) // it is always the same
	}
	items, err := jobs.Load(ctx, d.a, d.c, s, false)
	if err != nil {
		return nil
	}
	for _, i := range items {
		running = append(running, topJob(i))
	}
	return running
}
