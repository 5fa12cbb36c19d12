package coord

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
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

// MirrorConfig configures [Store.Mirror]. The zero value works.
type MirrorConfig struct {
	// Quiet is how long a watch may be silent before it is asked for a sign of
	// life; after another Quiet without one it is opened again on another stream.
	// Default 10 s.
	Quiet time.Duration
	// ScanEvery is the pause between full lists that back the watch, jittered by
	// a fifth. Default 5 min.
	ScanEvery time.Duration
}

func (c MirrorConfig) withDefaults() MirrorConfig {
	if c.Quiet == 0 {
		c.Quiet = 10 * time.Second
	}
	if c.ScanEvery == 0 {
		c.ScanEvery = 5 * time.Minute
	}
	return c
}

// Mirror keeps prefixes of a store in memory: list at R, watch from R+1, list
// again after compaction, after a silent stream, and now and then in any case.
// What it shows is a hint: the Txn decides. Create it with [Store.Mirror], then
// Run it once.
type Mirror struct {
	store  *Store
	cfg    MirrorConfig
	feeds  []*feed
	synced chan struct{}
}

// feed is one mirrored prefix.
type feed struct {
	prefix string
	sink   Sink
	single bool // the prefix is one key

	rev    atomic.Int64 // all events up to here have reached the sink
	heard  atomic.Int64 // unix nanoseconds of the last message
	once   sync.Once
	synced chan struct{}
}

// Mirror returns a mirror without prefixes; add them with Add before Run.
func (s *Store) Mirror(cfg MirrorConfig) *Mirror {
	return &Mirror{store: s, cfg: cfg.withDefaults(), synced: make(chan struct{})}
}

// Add mirrors all keys under prefix, or the one key when prefix does not end in
// "/", into sink. All of a mirror's watches share one stream.
func (m *Mirror) Add(prefix string, sink Sink) {
	m.feeds = append(m.feeds, &feed{
		prefix: prefix, sink: sink, single: prefix[len(prefix)-1] != '/', synced: make(chan struct{}),
	})
}

// Synced is closed once every prefix has been listed.
func (m *Mirror) Synced() <-chan struct{} { return m.synced }

// Run mirrors until ctx ends, and returns nil then. Errors of etcd are logged and
// survived.
func (m *Mirror) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, f := range m.feeds {
		wg.Go(func() { m.follow(ctx, f) })
	}
	wg.Go(func() { m.pulse(ctx) })
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
	return nil
}

// pulse asks a quiet stream for a sign of life: one request for all watches, at
// most one per Quiet. A feed that stays silent moves everybody to a new stream.
func (m *Mirror) pulse(ctx context.Context) {
	for sleep(ctx, m.cfg.Quiet) {
		oldest := time.Now()
		for _, f := range m.feeds {
			oldest = earlier(oldest, time.Unix(0, f.heard.Load()))
		}
		if time.Since(oldest) < m.cfg.Quiet/2 {
			continue
		}
		reqCtx, cancel := context.WithTimeout(m.store.watchContext(ctx, m.store.streams.Load()), m.cfg.Quiet/2)
		err := m.store.backend.requestProgress(reqCtx)
		cancel()
		if err != nil && ctx.Err() == nil {
			m.store.log.Debug("request watch progress", zap.Error(err))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// errRelist ends a watch that cannot go on from where it was.
var errRelist = errors.New("list again")

// follow keeps one prefix for as long as ctx lives.
func (m *Mirror) follow(ctx context.Context, f *feed) {
	for try := 0; ctx.Err() == nil; try++ {
		rewound := m.store.Rewound()
		if err := m.list(ctx, f); err != nil {
			m.store.log.Warn("list", zap.String("prefix", f.prefix), zap.Error(err))
			_ = pause(ctx, try)
			continue
		}
		try = 0
		scan := time.Now().Add(m.cfg.ScanEvery*4/5 + rand.N(m.cfg.ScanEvery*2/5))
		for watchTry := 0; ctx.Err() == nil; watchTry++ {
			before := f.rev.Load()
			err := m.watch(ctx, f, scan, rewound)
			if errors.Is(err, errRelist) {
				break
			}
			if f.rev.Load() > before {
				watchTry = 0
			}
			if err != nil && ctx.Err() == nil {
				m.store.log.Debug("watch", zap.String("prefix", f.prefix), zap.Error(err))
			}
			_ = pause(ctx, watchTry)
		}
	}
}

// list gives the sink everything at one revision. A list below what the sink has
// seen is from a member that lags, or from rewound history; only the latter is
// kept, and the store's mark tells them apart.
func (m *Mirror) list(ctx context.Context, f *feed) error {
	var resp *clientv3.GetResponse
	var err error
	if f.single {
		resp, err = m.store.Get(ctx, f.prefix)
	} else {
		resp, err = m.store.List(ctx, f.prefix)
	}
	if err != nil && !errors.Is(err, ErrHistoryRewound) {
		return err
	}
	f.sink.Reset(resp.Kvs, resp.Header.Revision)
	f.rev.Store(resp.Header.Revision)
	f.heard.Store(time.Now().UnixNano())
	f.once.Do(func() { close(f.synced) })
	return nil
}

// watch follows the prefix from the revision that the sink has, until the stream
// ends, falls silent, or it is time to list again.
func (m *Mirror) watch(ctx context.Context, f *feed, scan time.Time, rewound <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := m.store.streams.Load()
	var opts []clientv3.OpOption
	if !f.single {
		opts = append(opts, clientv3.WithPrefix())
	}
	watch := m.store.watchOn(ctx, stream, f.prefix, f.rev.Load()+1, opts...)
	f.heard.Store(time.Now().UnixNano())
	silent := time.NewTicker(m.cfg.Quiet / 4)
	defer silent.Stop()
	due := time.NewTimer(time.Until(scan))
	defer due.Stop()
	for {
		select {
		case resp, ok := <-watch:
			if !ok {
				return errors.New("watch ended")
			}
			if err := resp.Err(); err != nil {
				if isCompacted(err) || resp.CompactRevision != 0 {
					return errRelist
				}
				return err
			}
			f.heard.Store(time.Now().UnixNano())
			f.apply(resp)
		case <-silent.C:
			// Asked after one Quiet, dead after two and a half.
			if time.Since(time.Unix(0, f.heard.Load())) > m.cfg.Quiet*5/2 {
				m.store.streams.CompareAndSwap(stream, stream+1)
				return errors.New("watch is silent")
			}
			if m.store.streams.Load() != stream {
				return errors.New("the stream was left")
			}
		case <-due.C:
			return errRelist
		case <-rewound:
			return errRelist
		case <-ctx.Done():
			return nil
		}
	}
}

// apply hands on what is new. A watch that was opened again may repeat events:
// what the sink has seen is dropped. Progress may overtake events, so it is only
// passed on as a hint and never decides what is dropped; nor does the header of a
// response with events, which can be one of several for the same revisions.
func (f *feed) apply(resp clientv3.WatchResponse) {
	seen := f.rev.Load()
	events := resp.Events
	if len(events) == 0 {
		if resp.Header.Revision > seen {
			f.sink.Apply(nil, resp.Header.Revision)
		}
		return
	}
	for len(events) > 0 && events[0].Kv.ModRevision <= seen {
		events = events[1:]
	}
	if len(events) == 0 {
		return
	}
	rev := events[len(events)-1].Kv.ModRevision
	f.sink.Apply(events, rev)
	f.rev.Store(rev)
}
