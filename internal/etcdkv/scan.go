package etcdkv

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listTimeout bounds the first list of a mirror: a million keys take seconds.
const listTimeout = 60 * time.Second

// List reads all keys under prefix at one revision, for mirrors and listings. It
// blocks until the answer, ctx's end, or a minute has passed, and gives up on an
// endpoint that sends nothing for 3 s. Errors are as with [Store.Get].
func (s *Store) List(ctx context.Context, prefix string) (*clientv3.GetResponse, error) {
	all := &clientv3.GetResponse{}
	rev, err := s.Scan(ctx, prefix, 0, func(kvs []*mvccpb.KeyValue) bool {
		all.Kvs = append(all.Kvs, kvs...)
		return true
	})
	if err != nil && rev == 0 {
		return nil, err
	}
	all.Header, all.Count = &pb.ResponseHeader{Revision: rev}, int64(len(all.Kvs))
	return all, err
}

// Scan is List for those who need not keep everything: it hands the keys under
// prefix on in their order, piece by piece, as they were at revision rev, or with 0
// at the newest. It returns that revision, or 0 when each ended the scan by returning
// false. A rev that etcd has compacted is an error.
func (s *Store) Scan(ctx context.Context, prefix string, rev int64, each func([]*mvccpb.KeyValue) bool) (int64, error) {
	return s.scan(ctx, prefix, rev, each, clientv3.WithPrefix())
}

func (s *Store) scan(ctx context.Context, from string, rev int64, each func([]*mvccpb.KeyValue) bool, opts ...clientv3.OpOption) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	before := s.high.read()
	header, err := s.backend.Scan(ctx, from, each, append(opts, clientv3.WithRev(rev))...)
	if err != nil || header == nil {
		return 0, err
	}
	return cmp.Or(rev, header.Revision), s.observe(ctx, before, header, from)
}

// passOver is how many keys are received and dropped before a scan of names begins
// anew behind them: a request costs etcd about as much.
const passOver = 2000

// ScanNames hands on the names of the keys under prefix, in their order and without
// their values. A prefix that each returns is passed over: no more names that begin
// with it are handed on, and of many the most are not even sent. "" passes over
// nothing. Otherwise it is like [Store.Scan] at the newest revision, except that
// what comes behind many names that were passed over is read at a later one.
func (s *Store) ScanNames(ctx context.Context, prefix string, each func(name string) (past string)) error {
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix))
	for from := prefix; from != ""; {
		past, dropped, again := "", 0, ""
		_, err := s.scan(ctx, from, 0, func(kvs []*mvccpb.KeyValue) bool {
			for _, kv := range kvs {
				name := string(kv.Key)
				if past != "" && strings.HasPrefix(name, past) {
					if dropped++; dropped > passOver {
						again = clientv3.GetPrefixRangeEnd(past)
						return false
					}
					continue
				}
				past, dropped = each(name), 0
			}
			return true
		}, end, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		from = again
	}
	return nil
}

// ScanEach is Scan of many prefixes at one revision, in their order: small ones share
// a request, so that what it costs grows with what there is and not with the number
// of prefixes. It calls each at least once for every prefix, with its index, and with
// no keys where there are none; returning false leaves out the rest of that prefix.
// To end it early, end ctx. It returns the revision, 0 when the rest of an only prefix
// was left out. With an error, the prefixes before the last one that each was called
// for are complete.
func (s *Store) ScanEach(ctx context.Context, prefixes []string, rev int64, each func(i int, kvs []*mvccpb.KeyValue) bool) (int64, error) {
	for room, i := firstGets, 0; i < len(prefixes); {
		n, size := min(room, len(prefixes)-i), 0
		if n == 1 { // alone it is streamed
			at, err := s.scanOne(ctx, prefixes[i], rev, func(kvs []*mvccpb.KeyValue) bool {
				size += sizeOf(kvs)
				return each(i, kvs)
			})
			if err != nil {
				return 0, err
			}
			rev, room, i = at, nextGets(room, size), i+1
			continue
		}
		resp, err := s.Read(ctx, getsOf(prefixes[i:i+n], rev)...)
		if err != nil {
			return 0, fmt.Errorf("read %s and %d more: %w", prefixes[i], n-1, err)
		}
		rev = cmp.Or(rev, resp.Header.Revision)
		for j, r := range resp.Responses {
			found, hand := r.GetResponseRange(), func(kvs []*mvccpb.KeyValue) bool { return each(i+j, kvs) }
			size += sizeOf(found.Kvs)
			if !found.More {
				hand(found.Kvs)
			} else if _, err := s.scanOne(ctx, prefixes[i+j], rev, hand); err != nil {
				return 0, err
			}
		}
		i += n
		room = nextGets(room, size)
	}
	return rev, ctx.Err()
}

// scanOne streams one prefix, and calls each at least once.
func (s *Store) scanOne(ctx context.Context, prefix string, rev int64, each func([]*mvccpb.KeyValue) bool) (int64, error) {
	called := false
	at, err := s.Scan(ctx, prefix, rev, func(kvs []*mvccpb.KeyValue) bool {
		called = true
		return each(kvs)
	})
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", prefix, err)
	}
	if !called {
		each(nil)
	}
	return cmp.Or(rev, at), ctx.Err()
}

func sizeOf(kvs []*mvccpb.KeyValue) (n int) {
	for _, kv := range kvs {
		n += len(kv.Key) + len(kv.Value)
	}
	return n
}

const (
	// firstGets and maxGets are how many prefixes are read with one request, at first
	// and at most: half of what etcd takes.
	firstGets, maxGets = 16, 64
	// smallPrefix is how many keys a prefix may have that is not streamed.
	smallPrefix = 64
	// fewBytes and manyBytes are the sizes of answers that raise and lower the number of
	// prefixes in the next request: etcd builds an answer whole in its memory.
	fewBytes, manyBytes = 1 << 20, 8 << 20
)

func getsOf(prefixes []string, rev int64) (gets []clientv3.Op) {
	for _, p := range prefixes {
		gets = append(gets, clientv3.OpGet(p, clientv3.WithPrefix(), clientv3.WithLimit(smallPrefix), clientv3.WithRev(rev)))
	}
	return gets
}

// nextGets is how many prefixes the next request is for, after an answer of that size.
func nextGets(last, size int) int {
	switch {
	case size < fewBytes:
		return min(2*last, maxGets)
	case size > manyBytes:
		return max(last/2, 1)
	}
	return last
}
