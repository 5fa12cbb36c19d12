package coord

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// createSessionKey puts a key that never existed before. No lane is needed: its
// own success falsifies its guard for ever, because the name is unique and the
// lease dies with the key. It also creates meta, once per root, and reads it.
func createSessionKey(ctx context.Context, store *etcdkv.Store, key, value, nonce string, lease clientv3.LeaseID) (int64, error) {
	meta := store.Keys().Meta()
	txn, mayWrite := sessionTxn(key, value, lease, meta, true), true
	for try := 0; ; try++ {
		reqCtx, cancel := context.WithTimeout(ctx, etcdkv.RequestTimeout)
		resp, err := store.Txn(reqCtx, txn)
		cancel()
		switch {
		case err == nil && resp.Succeeded && mayWrite:
			if nested := resp.Responses[1].GetResponseTxn(); !nested.Succeeded {
				return resp.Header.Revision, keyspace.CheckMeta(nested.Responses[0].GetResponseRange().Kvs)
			}
			return resp.Header.Revision, nil
		case err == nil && resp.Succeeded:
			return resp.Header.Revision, keyspace.CheckMeta(resp.Responses[1].GetResponseRange().Kvs)
		case mayWrite && errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied):
			// A role need not write the schema, which would lock others out: etcd asks for
			// that right even where the put is not done. Reading it suffices.
			txn, mayWrite = sessionTxn(key, value, lease, meta, false), false
			continue
		case err == nil:
			// An earlier try of ours was applied; its answer was lost.
			kvs := resp.Responses[0].GetResponseRange().Kvs
			if len(kvs) != 1 || keyspace.NonceOf(kvs[0].Value) != nonce {
				return 0, fmt.Errorf("create %s: the key exists", key)
			}
			return kvs[0].CreateRevision, keyspace.CheckMeta(resp.Responses[1].GetResponseRange().Kvs)
		case etcdkv.NotApplied(err) || ctx.Err() != nil:
			return 0, fmt.Errorf("create session key: %w", err)
		}
		if perr := etcdkv.Pause(ctx, try); perr != nil {
			return 0, fmt.Errorf("create session key: %w: %w", perr, err)
		}
	}
}

// sessionTxn puts the key of a session, and reads meta, or creates it where it may.
func sessionTxn(key, value string, lease clientv3.LeaseID, meta string, mayWrite bool) etcdkv.Txn {
	tend := clientv3.OpGet(meta)
	if mayWrite {
		tend = clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(meta), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(meta, fmt.Sprintf(`{"schema":%d}`, keyspace.Schema))},
			[]clientv3.Op{clientv3.OpGet(meta)})
	}
	return etcdkv.Txn{
		If:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		Then: []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(lease)), tend},
		Else: []clientv3.Op{clientv3.OpGet(key), clientv3.OpGet(meta)},
	}
}
