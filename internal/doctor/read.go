package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/roles"
	"github.com/leasekit/leasekit/workqueue"
)

// reader reads ranges at one revision, as far as it may.
type reader struct {
	client  *clientv3.Client
	store   *etcdkv.Store
	queues  workqueue.Queues
	rev     int64
	allowed roles.Granted
}

// each is called with what was read, in batches, in the order of the keys. It must not keep the slice.
type each func(kvs []*mvccpb.KeyValue) error

// scan reads all keys under prefix. whole is false when some of them may not be read.
func (r reader) scan(ctx context.Context, prefix string, keysOnly bool, f each) (whole bool, err error) {
	spans, whole := r.allowed.Readable(span(prefix, prefixEnd(prefix)))
	for _, s := range spans {
		err := r.stream(ctx, s, keysOnly, f)
		if isDenied(err) {
			whole, err = false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return whole, nil
}

// errEnough leaves out the rest of a directory.
var errEnough = errors.New("enough was read")

// scanParts reads many directories, of which small ones share requests.
func (r reader) scanParts(ctx context.Context, parts []part) error {
	var prefixes []string
	for _, p := range parts {
		prefixes = append(prefixes, p.prefix)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := 0
	_, err := r.store.ScanEach(ctx, prefixes, r.rev, func(i int, kvs []*mvccpb.KeyValue) bool {
		begun = i + 1
		err := parts[i].take(kvs)
		if err != nil && !errors.Is(err, errEnough) {
			cancel(err)
		}
		return err == nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isDenied(err): // at the beginning of a directory, and not all of it could be known before
		return r.scanAlone(ctx, parts[begun:])
	}
	return err
}

// scanAlone reads directory by directory, and leaves out what may not be read.
func (r reader) scanAlone(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if _, err := r.scan(ctx, p.prefix, false, p.take); err != nil && !errors.Is(err, errEnough) {
			return fmt.Errorf("read %s: %w", p.prefix, err)
		}
	}
	return nil
}

// stallTimeout is how long an endpoint may send nothing in the middle of a range.
const stallTimeout = 5 * time.Second

var errStalled = errors.New("the endpoint stopped sending")

// stream reads one range, streamed where the server can, since a unary answer is built whole in its memory.
func (r reader) stream(parent context.Context, s roles.Span, keysOnly bool, f each) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()
	opts := []clientv3.OpOption{clientv3.WithRange(s.End), clientv3.WithRev(r.rev)}
	if keysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	chunks, err := r.client.GetStream(ctx, s.From, opts...)
	if err != nil {
		return r.orPages(parent, s, opts, f, err)
	}
	begun := false
	for chunk := range chunks { // to its end even after an error, which frees the sender
		stalled.Reset(stallTimeout)
		if err != nil {
			continue
		}
		if err = chunk.Err(); err == nil && chunk.RangeResponse != nil && len(chunk.Kvs) > 0 {
			begun = true
			err = f(chunk.Kvs)
			stalled.Reset(stallTimeout)
		}
		if err != nil {
			cancel(err)
		}
	}
	switch {
	case err == nil:
		return nil
	case parent.Err() != nil:
		return context.Cause(parent)
	case begun:
		return err
	}
	return r.orPages(parent, s, opts, f, err)
}

// pageSize is how many keys a page has.
const pageSize = 5000

// orPages reads in pages what a server cannot stream.
func (r reader) orPages(ctx context.Context, s roles.Span, opts []clientv3.OpOption, f each, err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	for from := s.From; ; {
		resp, err := r.client.Get(ctx, from, append(opts[:len(opts):len(opts)], clientv3.WithLimit(pageSize))...)
		if err != nil {
			return err
		}
		if len(resp.Kvs) > 0 {
			if err := f(resp.Kvs); err != nil {
				return err
			}
			from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		}
		if !resp.More {
			return nil
		}
	}
}

// streamAll reads the names in several ranges.
func (r reader) streamAll(ctx context.Context, spans []roles.Span, f each) error {
	for _, s := range spans {
		if err := r.stream(ctx, s, true, f); err != nil {
			return err
		}
	}
	return nil
}

// firstQueues lists manyQueues and one of the queues at most, in the order of their keys, with one request for each: on behind
// all keys of the one before.
func (r reader) firstQueues(ctx context.Context, keys keyspace.Keyspace) (names []string, err error) {
	end := prefixEnd(keys.Queues())
	for from := keys.Queues(); ; {
		resp, err := r.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly(), clientv3.WithRev(r.rev))
		if err != nil || len(resp.Kvs) == 0 {
			return names, err
		}
		name := string(resp.Kvs[0].Key)
		if p, ok := keys.Parse(name); ok && misnamed(p) == nil {
			names = append(names, p.Queue)
			from = prefixEnd(keys.Queue(p.Queue).Prefix())
		} else {
			from = name + "\x00" // a foreign key
		}
		if len(names) > manyQueues {
			return names, nil
		}
	}
}

func isCompacted(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) }

func isDenied(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) }

// errDenied is the end of a look that may see nothing.
var errDenied = rpctypes.ErrPermissionDenied

func prefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }
