package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Event is one change of one key.
type Event struct {
	// Rev is the revision, shared by all changes of one Txn.
	Rev int64
	// Key is the key, Value its new value; a deletion has none.
	Key    string
	Delete bool
	Value  []byte
	// CreateRev is the revision that created the key, Lease the lease it hangs on; 0
	// for deletions.
	CreateRev int64
	Lease     int64
	// Seen is when the witness saw it, a reading of [Now]: never before it happened.
	Seen int64
}

// WitnessConfig says what to watch.
type WitnessConfig struct {
	// Root is the root of the queues, with its final slash.
	Root string
	// Also are further prefixes, such as that of the callers' own writes. With any,
	// the whole of etcd is watched and filtered.
	Also []string
	// From is the first revision; 0 means 1, the beginning of all.
	From int64
}

// Witness is one watch over everything, and so has the exact history. It reconnects
// and goes on at the next revision. It never skips: when revisions that it has not
// seen are compacted, it fails. It holds the watch to what etcd promises: revisions in
// order, each whole in one response, no key twice in one, no version of a key left
// out, nothing below a revision that progress promised, nothing lost over a
// reconnection. Safe for concurrent use.
type Witness struct {
	cl     *clientv3.Client
	cfg    WitnessConfig
	ctx    context.Context // its metadata name the stream of watches
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	books   books
	streams int
	reopen  context.CancelFunc // ends the watch under way
	err     error
}

// errGap ends the witness: there is a hole in its history.
var errGap = errors.New("the history has a hole")

// StartWitness begins to watch. The client should reach every member, past all
// proxies. It does not block. The watch ends with Close, not with ctx.
func StartWitness(ctx context.Context, cl *clientv3.Client, cfg WitnessConfig) (*Witness, error) {
	if !strings.HasSuffix(cfg.Root, "/") {
		return nil, fmt.Errorf("start witness: the root %q does not end in a slash", cfg.Root)
	}
	cfg.From = max(cfg.From, 1)
	w := &Witness{cl: cl, cfg: cfg, done: make(chan struct{}), changed: make(chan struct{})}
	w.books = newBooks(cfg.From, append([]string{cfg.Root}, cfg.Also...))
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go w.run()
	return w, nil
}

func (w *Witness) run() {
	defer close(w.done)
	for w.ctx.Err() == nil {
		err := w.watch()
		if err != nil && w.ctx.Err() == nil {
			w.fail(err)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.ctx.Done():
		}
	}
}

// watch follows one watch to its end. An error is for good.
func (w *Witness) watch() error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	w.mu.Lock()
	w.streams++
	ctx = w.stream(ctx)
	w.reopen = cancel
	// From what was seen already, not behind it: a watch of the future would get no
	// answers to requests for progress. What is repeated is dropped.
	from := max(w.books.rev, w.cfg.From)
	w.mu.Unlock()
	key, opts := w.cfg.Root, []clientv3.OpOption{clientv3.WithRev(from), clientv3.WithCreatedNotify()}
	if len(w.cfg.Also) > 0 {
		key, opts = "\x00", append(opts, clientv3.WithFromKey())
	} else {
		opts = append(opts, clientv3.WithPrefix())
	}
	for resp := range w.cl.Watch(ctx, key, opts...) {
		if resp.CompactRevision != 0 {
			return fmt.Errorf("%w: revisions from %d to %d were compacted before they were seen", errGap, from, resp.CompactRevision)
		}
		if resp.Err() != nil {
			return nil // a lost leader or connection: once more
		}
		if err := w.take(resp, from); err != nil {
			return err
		}
	}
	return nil
}

// stream names a gRPC stream that no other watch shares. Called with mu held.
func (w *Witness) stream(ctx context.Context) context.Context {
	return clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx, "leasekit-witness", fmt.Sprintf("%p-%d", w, w.streams)))
}

func (w *Witness) take(resp clientv3.WatchResponse, from int64) error {
	now := Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if resp.Created {
		w.books.opened(from)
		return nil
	}
	if err := w.books.take(resp, now); err != nil {
		return err
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

func (w *Witness) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = fmt.Errorf("witness: %w", err)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Seen is the revision up to which everything was seen.
func (w *Witness) Seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.books.seen()
}

// Compactable is the highest revision that may be compacted without a hole in the
// history: whoever compacts during a run keeps to it. It is 0 while there is none.
func (w *Witness) Compactable() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Behind the last event, where a reconnection begins, though progress may have
	// promised more.
	return w.books.rev
}

// WaitSeen blocks until everything up to a revision was seen, or the witness failed,
// or ctx ended.
func (w *Witness) WaitSeen(ctx context.Context, rev int64) error {
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for asked := 1; ; asked++ {
		w.mu.Lock()
		seen, err, changed, reopen := w.books.seen(), w.err, w.changed, w.reopen
		progress := w.stream(w.ctx)
		w.mu.Unlock()
		if err != nil || seen >= rev {
			return err
		}
		if asked%50 == 0 && reopen != nil {
			reopen() // a stream that etcd's client resumed in the future gets no answers
		}
		select {
		case <-changed:
		case <-ask.C:
			reqCtx, cancel := context.WithTimeout(progress, time.Second)
			_ = w.cl.RequestProgress(reqCtx) // the next try is near
			cancel()
		case <-ctx.Done():
			return fmt.Errorf("wait for the witness to see revision %d: it is at %d: %w", rev, seen, context.Cause(ctx))
		}
	}
}

// Err is why the history is not whole, or which guarantee of watches was broken; nil
// while all is well.
func (w *Witness) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Events returns what was seen so far, in order.
func (w *Witness) Events() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.books.events)
}

// Close ends the watch, joins its goroutine and returns Err. It may be called again.
func (w *Witness) Close() error {
	w.cancel()
	<-w.done
	return w.Err()
}
