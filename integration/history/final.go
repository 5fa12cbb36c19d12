package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// KV is one key of the final state, as etcd has it.
type KV struct {
	Value                    []byte
	ModRev, CreateRev, Lease int64
}

// Final is everything under some prefixes at one revision.
type Final struct {
	// Revision is the one, At when it was read, a reading of [Now].
	Revision int64
	At       int64
	// Prefixes are what was read, KVs what was found, by key.
	Prefixes []string
	KVs      map[string]KV
}

const (
	finalPage  = 1000
	finalTries = 20
)

// ReadFinal reads everything under the prefixes, at one revision, with linearizable
// reads; once more when that revision is compacted meanwhile, or a member is away. It
// blocks until it has that, or ctx ends.
func ReadFinal(ctx context.Context, cl *clientv3.Client, prefixes ...string) (*Final, error) {
	for try := 0; ; try++ {
		f, err := readFinal(ctx, cl, prefixes)
		if err == nil {
			return f, nil
		}
		if ctx.Err() != nil || try >= finalTries {
			return nil, fmt.Errorf("read the final state: %w", errors.Join(err, context.Cause(ctx)))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func readFinal(ctx context.Context, cl *clientv3.Client, prefixes []string) (*Final, error) {
	f := &Final{At: Now(), Prefixes: slices.Clone(prefixes), KVs: map[string]KV{}}
	for _, prefix := range prefixes {
		end := clientv3.GetPrefixRangeEnd(prefix)
		for from := prefix; ; {
			resp, err := getPage(ctx, cl, from, end, f.Revision)
			if err != nil {
				return nil, err
			}
			f.Revision = resp.Header.Revision
			if len(resp.Kvs) > 0 {
				from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
			}
			for _, kv := range resp.Kvs {
				f.KVs[string(kv.Key)] = KV{bytes.Clone(kv.Value), kv.ModRevision, kv.CreateRevision, kv.Lease}
			}
			if !resp.More {
				break
			}
		}
	}
	return f, nil
}

// getPage reads a page at a revision, and at the newest for 0. Its header always has
// the revision of the first page.
func getPage(ctx context.Context, cl *clientv3.Client, from, end string, rev int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := cl.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(finalPage), clientv3.WithRev(rev))
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	if rev != 0 {
		resp.Header.Revision = rev
	}
	return resp, nil
}
