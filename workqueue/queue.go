package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
)

// Config configures [Open]. Only Queue must be set.
type Config struct {
	// Queue is the queue's name.
	Queue string
	// Root is the key prefix; "" means /leasekit/.
	Root string
	// Identity is a label for people, such as a host or pod name; "" means the
	// host name.
	Identity string
	// MaxPayload is the payload limit in bytes; 0 means 256 KiB, more than
	// 900 KiB is not accepted, since etcd would not take it.
	MaxPayload int
	// Retention is how long done jobs are kept, 1 s to 100 years. Where the queue's
	// settings say it too ([Queue.SetSettings]), the shorter counts; 0 means theirs, or
	// else 1 h.
	Retention time.Duration
	// RetainJobs bounds the done jobs that this process keeps, whatever Retention
	// says, and settings likewise; the oldest go first. 0 means theirs, or else 10,000.
	RetainJobs int
	// RetainBytes bounds their size likewise; 0 means theirs, or else 64 MiB.
	RetainBytes int
	// Backoff is the pause between failed attempts, and between counted losses, where
	// the queue's settings have none.
	Backoff Backoff
	// Quiet is how long the watches may be silent before they are asked for a sign of
	// life; after another Quiet without one they are opened again on another
	// connection. 100 ms to 24 h; 0 means 10 s.
	Quiet time.Duration
	// ScanEvery is the pause between full lists that back the watches, jittered by a
	// fifth. 100 ms to 24 h; 0 means 5 min.
	ScanEvery time.Duration
	// Logger logs what no caller sees: attempts that failed, died, were refused or
	// abandoned, one line each, and trouble with etcd. nil logs nothing.
	// [coord.SlogLogger] makes one of a slog handler.
	Logger *zap.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.Identity == "" {
		c.Identity = hostname()
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c Config) validate() error {
	if err := keyspace.ValidateName("queue", c.Queue); err != nil {
		return err
	}
	if err := keyspace.ValidateName("identity", c.Identity); err != nil {
		return err
	}
	if c.MaxPayload < 0 || c.MaxPayload > hardPayload {
		return &coord.InputError{Field: "max payload", Value: fmt.Sprint(c.MaxPayload), Reason: fmt.Sprintf("it is at most %d bytes: etcd refuses larger requests", hardPayload)}
	}
	if err := job.Backoff(c.Backoff).Validate(); err != nil {
		return err
	}
	for field, n := range map[string]int{"retain jobs": c.RetainJobs, "retain bytes": c.RetainBytes} {
		if n < 0 {
			return &coord.InputError{Field: field, Value: fmt.Sprint(n), Reason: "it must not be negative; 0 means the default"}
		}
	}
	return job.CheckSpans(
		job.Span{Field: "retention", D: c.Retention, Least: time.Second, Most: job.MaxTimeout, Zero: "1h"},
		job.Span{Field: "quiet", D: c.Quiet, Least: minPeriod, Most: job.MaxPeriod, Zero: "10s"},
		job.Span{Field: "scan every", D: c.ScanEvery, Least: minPeriod, Most: job.MaxPeriod, Zero: "5m"},
	)
}

// minPeriod bounds how often the mirrors may bother etcd by a careless config.
const minPeriod = 100 * time.Millisecond

// Queue is a handle on one queue: it owns a mirror of the queue's jobs, started
// on first use, a committer for what it writes itself, and the leases that done
// jobs hang on. Close joins them. Safe for concurrent use; open one per process
// and queue.
type Queue struct {
	cfg    Config
	client *clientv3.Client
	core   *queue.Core
}

func init() {
	queue.Serve(
		func(public any) *queue.Core { return public.(*Queue).core },
		func(r *job.Record, queue string, where job.Place, rev int64, now time.Time, ownerLives func(string, int64) bool) any {
			return view(r, queue, where, rev, now, ownerLives)
		})
}

// Open returns a handle on a queue, which need not exist: a queue is its jobs. It
// makes two linearizable reads, so that a wrong endpoint or a missing permission
// shows here, and a root with a newer schema than this program's ([coord.ErrInvalid]);
// it blocks until then or until ctx ends. The client stays the
// caller's and must outlive the handle.
func Open(ctx context.Context, client *clientv3.Client, cfg Config) (*Queue, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	store, err := etcdkv.NewStore(client, cfg.Root, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Queue, err)
	}
	keys := store.Keys().Queue(cfg.Queue)
	config, err := readFirst(ctx, store, keys)
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Queue, err)
	}
	c := queue.New(store, cfg.Queue, cfg.Identity, cfg.settings(), cfg.Quiet, cfg.ScanEvery, cfg.Logger)
	c.MaxPayload = cfg.MaxPayload
	c.Mirrors.Learn(config)
	return &Queue{cfg: cfg, client: client, core: c}, nil
}

// readFirst reads the config of a queue, and refuses a root that a newer program has
// written, unless its schema may not be read. A get each, since only one by itself is
// told why etcd does not answer.
func readFirst(ctx context.Context, store *etcdkv.Store, keys keyspace.QueueKeys) (config []*mvccpb.KeyValue, err error) {
	resp, err := store.Get(ctx, keys.Config())
	if err != nil {
		return nil, err
	}
	meta, err := store.Get(ctx, store.Keys().Meta())
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied):
		return resp.Kvs, nil
	case err != nil:
		return nil, err
	}
	return resp.Kvs, keyspace.CheckMeta(meta.Kvs)
}

// Name is the queue's name.
func (q *Queue) Name() string { return q.core.Name() }

// Close stops the mirror, settles what is still being written, and joins every
// goroutine of the handle, within about 3 s. Workers must have stopped. Closing
// twice is fine.
func (q *Queue) Close() error { return q.core.Close() }
