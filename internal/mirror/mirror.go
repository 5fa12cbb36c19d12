// Package mirror keeps prefixes of etcd in memory: list, then watch. What it shows is a
// hint; the Txn decides.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Sink receives what a [Mirror] sees. The mirror calls it from one goroutine, in
// revision order; it must not block.
type Sink interface {
	// Reset replaces everything: these are all keys at revision rev.
	Reset(kvs []*mvccpb.KeyValue, rev int64)
	// Apply tells of changes after the last Reset or Apply, each once, up to
	// revision rev. Without events it is a hint that nothing happened up to rev.
	Apply(events []*clientv3.Event, rev int64)
}

// Mirror keeps prefixes of a store in memory: list at R, watch from there, list
// again after compaction, behind a lost connection or a silent stream, and now and
// then in any case. What it shows is a hint: the Txn decides. Create it with [New], then
// Run it once.
type Mirror struct {
	store  *etcdkv.Store
	quiet  time.Duration
	scan   time.Duration // between full lists
	id     string
	feeds  []*feed
	synced chan struct{}

	doubts   bell         // etcd may have another history by now
	streams  atomic.Int64 // numbers the gRPC streams; see Store.WatchContext
	watching atomic.Int32 // feeds that have a watch on a stream
	heard    atomic.Int64 // unix nanoseconds of the stream's last message
}

// feed is one mirrored prefix.
type feed struct {
	prefix string
	sink   Sink
	single bool // the prefix is one key

	synced chan struct{}

	// What follows is owned by follow. All events up to rev have reached the sink; scan is
	// when all is listed again; rewound and doubted are closed when that is due before.
	rev     int64
	scan    time.Time
	rewound <-chan struct{}
	doubted <-chan struct{}
}

// New returns a mirror without prefixes; add them with Add before Run. Quiet is
// how long the watches may be silent before they are asked for a sign of life; after
// another quiet without one they are opened again on another stream; 0 means 10 s.
// ScanEvery is the pause between full lists that back the watch, jittered by a fifth;
// 0 means 5 min. What is negative counts as 0, what is below 10 ms as 10 ms, and what
// is above 24 h as 24 h.
func New(s *etcdkv.Store, quiet, scanEvery time.Duration) *Mirror {
	within := func(d, standard time.Duration) time.Duration {
		if d <= 0 {
			return standard
		}
		return min(max(d, 10*time.Millisecond), 24*time.Hour)
	}
	return &Mirror{
		store: s, quiet: within(quiet, 10*time.Second), scan: within(scanEvery, 5*time.Minute),
		id: keyspace.NewNonce(), synced: make(chan struct{}),
	}
}

// Add mirrors all keys under prefix, or the one key when prefix does not end in
// "/", into sink. All of a mirror's watches share one stream.
func (m *Mirror) Add(prefix string, sink Sink) {
	m.feeds = append(m.feeds, &feed{
		prefix: prefix, sink: sink, single: !strings.HasSuffix(prefix, "/"), synced: make(chan struct{}),
	})
}

// Synced is closed once every prefix has been listed.
func (m *Mirror) Synced() <-chan struct{} { return m.synced }

// Run mirrors until ctx ends, and returns nil then. Errors of etcd are logged and
// survived; [fault.ErrClosed] means that the client was closed.
func (m *Mirror) Run(ctx context.Context) error {
	ctx, stop := m.store.WhileOpen(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, f := range m.feeds {
		wg.Go(func() { m.follow(ctx, f) })
	}
	wg.Go(func() { m.pulse(ctx) })
	wg.Go(func() { m.doubt(ctx) })
	wg.Go(func() {
		for _, f := range m.feeds {
			select {
			case <-f.synced:
			case <-ctx.Done():
				return
			}
		}
		close(m.synced)
	})
	wg.Wait()
	if m.store.IsClosed() && errors.Is(context.Cause(ctx), fault.ErrClientClosed) {
		return fault.ErrClientClosed
	}
	return nil
}

// pulse asks a quiet stream for a sign of life: one request for all watches, at
// most one per Quiet.
func (m *Mirror) pulse(ctx context.Context) {
	for wait := m.quiet; etcdkv.Sleep(ctx, wait); {
		wait = m.quiet
		if quiet := m.silence(); quiet < m.quiet {
			wait -= quiet
			continue
		}
		if m.watching.Load() == 0 {
			continue // there is no stream, and asking would open one
		}
		reqCtx, cancel := context.WithTimeout(m.store.WatchContext(ctx, m.stream(m.streams.Load())), m.quiet)
		err := m.store.RequestProgress(reqCtx)
		cancel()
		if err != nil && ctx.Err() == nil {
			m.store.Log().Debug("request watch progress", zap.Error(err))
		}
	}
}

// silence is how long nothing was heard on the stream.
func (m *Mirror) silence() time.Duration { return time.Since(time.Unix(0, m.heard.Load())) }

func (m *Mirror) hear() { m.heard.Store(time.Now().UnixNano()) }

// stream names stream n of this mirror.
func (m *Mirror) stream(n int64) string { return fmt.Sprintf("mirror-%s-%d", m.id, n) }

// leave moves all watches from stream n to the next; whoever comes second finds
// it done.
func (m *Mirror) leave(n int64) {
	if m.streams.CompareAndSwap(n, n+1) {
		m.doubts.ring()
		m.store.LeaveStreams() // what Store.Watch starts from now on stays away too
	}
}

// errRelist ends a watch that cannot go on from where it was.
var errRelist = errors.New("list again")

// follow keeps one prefix for as long as ctx lives.
func (m *Mirror) follow(ctx context.Context, f *feed) {
	for try := 0; ctx.Err() == nil; try++ {
		before := m.store.Seen()
		f.rewound, f.doubted = m.store.Rewound(), m.doubts.next()
		if err := m.list(ctx, f); err != nil {
			if ctx.Err() == nil {
				m.store.Log().Warn("list", zap.String("prefix", f.prefix), zap.Error(err))
			}
			_ = etcdkv.Pause(ctx, try) // a ctx that ended ends the loop
			continue
		}
		try = 0
		f.scan = time.Now().Add(m.scan*4/5 + rand.N(m.scan*2/5))
		for watchTry := 0; ctx.Err() == nil; watchTry++ {
			listed := f.rev
			err := m.watch(ctx, f, before)
			if errors.Is(err, errRelist) {
				break
			}
			if f.rev > listed {
				watchTry = 0
			}
			if err != nil && ctx.Err() == nil {
				m.store.Log().Debug("watch", zap.String("prefix", f.prefix), zap.Error(err))
			}
			_ = etcdkv.Pause(ctx, watchTry)
		}
	}
}

// list gives the sink everything at one revision. After a rewind that can be
// below what the sink has seen, and the sink follows.
func (m *Mirror) list(ctx context.Context, f *feed) error {
	var resp *clientv3.GetResponse
	var err error
	if f.single {
		resp, err = m.store.Get(ctx, f.prefix)
	} else {
		resp, err = m.store.List(ctx, f.prefix)
	}
	if err != nil && !errors.Is(err, fault.ErrHistoryRewound) {
		return err
	}
	f.sink.Reset(resp.Kvs, resp.Header.Revision)
	f.rev = resp.Header.Revision
	select {
	case <-f.synced:
	default:
		close(f.synced)
	}
	return nil
}

// watch follows the prefix from the revision that the sink has, until the stream
// ends, falls silent, or it is time to list again. before is the high-water mark
// from before the list.
func (m *Mirror) watch(ctx context.Context, f *feed, before etcdkv.Mark) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := m.streams.Load()
	watch, err := m.open(ctx, cancel, f, stream)
	if err != nil {
		return err
	}
	m.watching.Add(1)
	defer m.watching.Add(-1)
	m.hear()
	silent := time.NewTicker(m.quiet / 4)
	defer silent.Stop()
	due := time.NewTimer(time.Until(f.scan))
	defer due.Stop()
	for {
		select {
		case resp, ok := <-watch:
			if !ok {
				return errors.New("watch ended")
			}
			m.hear()
			if err := m.take(ctx, f, resp, before); err != nil {
				return err
			}
		case <-silent.C:
			// Asked after one Quiet, dead after two: a tick late at most.
			if m.silence() > 2*m.quiet { //mutant:mirror-silent
				m.leave(stream)
			}
			if m.streams.Load() != stream {
				return errors.New("watch is silent")
			}
		case <-due.C: //mutant:mirror-full-list
			return errRelist
		case <-f.rewound: //mutant:mirror-rewound
			return errRelist
		case <-f.doubted: //mutant:mirror-doubted
			f.doubted = nil
			f.scan = time.Now().Add(min(time.Until(f.scan), rand.N(m.scan/50)))
			due.Reset(time.Until(f.scan))
		case <-ctx.Done():
			return nil
		}
	}
}

// open opens the watch. The client waits for the server to confirm it, for ever
// if need be, and a stream on a dead connection never does.
func (m *Mirror) open(ctx context.Context, cancel context.CancelFunc, f *feed, stream int64) (clientv3.WatchChan, error) {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if !f.single {
		opts = append(opts, clientv3.WithPrefix())
	}
	unconfirmed := time.AfterFunc(m.quiet, func() {
		m.leave(stream)
		cancel()
	})
	// Not from f.rev+1, although all up to f.rev has been seen: as long as nothing
	// is written that would be in the future, and etcd then answers no request
	// for progress. What is repeated is dropped.
	watch := m.store.WatchOn(ctx, m.stream(stream), f.prefix, f.rev, opts...)
	if !unconfirmed.Stop() {
		return nil, errors.New("watch is not confirmed")
	}
	return watch, nil
}

// take judges one response and hands its news to the sink.
func (m *Mirror) take(ctx context.Context, f *feed, resp clientv3.WatchResponse, before etcdkv.Mark) error {
	if err := resp.Err(); err != nil {
		if etcdkv.IsCompacted(err) || resp.CompactRevision != 0 { //mutant:mirror-compacted
			m.store.Log().Debug("list again: the watch's revision is compacted", zap.String("prefix", f.prefix))
			return errRelist
		}
		return err
	}
	if resp.Header.Revision < f.rev {
		// A member that lags, or history that went back, which a watch does not
		// notice: it waits, silently, for a revision that may never come. A
		// linearizable read tells; if it is a rewind, the store says so. What is watched
		// may be read; another key need not be.
		_, _ = m.store.Get(ctx, f.prefix, clientv3.WithKeysOnly())
		return nil
	}
	if resp.Created {
		return nil // up to its revision there may be events on their way
	}
	f.apply(resp)
	// The events have happened, so no linearizable answer may be below them.
	m.store.Reached(before, f.rev, resp.Header.ClusterId)
	return nil
}

// apply hands on what is new. A watch repeats events when it is opened: what the
// sink has seen is dropped. Progress may overtake events, so it is only
// passed on as a hint and never decides what is dropped; nor does the header of a
// response with events, which can be one of several for the same revisions.
func (f *feed) apply(resp clientv3.WatchResponse) {
	seen := f.rev
	events := resp.Events
	if len(events) == 0 {
		if resp.Header.Revision > seen {
			f.sink.Apply(nil, resp.Header.Revision) //mutant:feed-progress
		}
		return
	}
	for len(events) > 0 && events[0].Kv.ModRevision <= seen { //mutant:feed-repeats
		events = events[1:]
	}
	if len(events) == 0 {
		return
	}
	rev := events[len(events)-1].Kv.ModRevision
	f.sink.Apply(events, rev)
	f.rev = rev
}
