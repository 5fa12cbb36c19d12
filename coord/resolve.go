package coord

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxReplay is how many keys are read together when a batch is resolved.
const maxReplay = 100

// resolve finds out what each unit of a batch did that was applied at revision
// rev by a try whose answer was lost, by reading at that revision: a unit
// succeeded exactly if the key that it always puts has that mod revision there.
func (l *lane) resolve(ctx context.Context, s *Store, units []*unit, rev int64) {
	gets := make([]clientv3.Op, len(units))
	for i, u := range units {
		key := u.evidence
		if key == "" {
			key = l.note(i)
		}
		gets[i] = clientv3.OpGet(key, clientv3.WithRev(rev), clientv3.WithKeysOnly())
	}
	found, err := readAll(ctx, s, gets)
	if err != nil {
		failAll(units, unknown(err))
		return
	}
	for i, u := range units {
		kvs := found[i].Kvs
		u.replay(ctx, s, rev, len(kvs) == 1 && kvs[0].ModRevision == rev)
	}
}

// replay settles one unit of a resolved batch: it reads again what the branch
// that happened has read.
func (u *unit) replay(ctx context.Context, s *Store, rev int64, succeeded bool) {
	r := Result{Succeeded: succeeded, Revision: rev}
	ops := u.txn.Else
	if succeeded {
		ops = u.txn.Then
	}
	var (
		gets  []clientv3.Op
		where []int
	)
	for i, op := range ops {
		if !op.IsGet() {
			continue
		}
		at, err := replayRev(ops, i, rev)
		if err != nil {
			u.settle(Result{}, unknown(err))
			return
		}
		gets, where = append(gets, getAt(op, at)), append(where, i)
	}
	if len(gets) > 0 {
		found, err := readAll(ctx, s, gets)
		if err != nil {
			u.settle(Result{}, unknown(err))
			return
		}
		r.gets = make([]*pb.RangeResponse, len(ops))
		for j, i := range where {
			r.gets[i] = found[j]
		}
	}
	u.settle(r, nil)
}

// getAt is a get of a Txn as one at a revision. Only its first key is ever looked
// at; see Result.Get.
func getAt(op clientv3.Op, rev int64) clientv3.Op {
	if op.Rev() > 0 {
		rev = op.Rev()
	}
	opts := []clientv3.OpOption{clientv3.WithRev(rev), clientv3.WithLimit(1)}
	if end := op.RangeBytes(); len(end) > 0 {
		opts = append(opts, clientv3.WithRange(string(end)))
	}
	if op.IsKeysOnly() {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if op.IsCountOnly() {
		opts = append(opts, clientv3.WithCountOnly())
	}
	return clientv3.OpGet(string(op.KeyBytes()), opts...)
}

// readAll makes gets, again and again until etcd answers: an outcome hangs on
// them.
func readAll(ctx context.Context, s *Store, gets []clientv3.Op) ([]*pb.RangeResponse, error) {
	out := make([]*pb.RangeResponse, 0, len(gets))
	for len(gets) > 0 {
		n := min(len(gets), maxReplay)
		resp, err := readUntilAnswered(ctx, s, gets[:n])
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Responses {
			out = append(out, r.GetResponseRange())
		}
		gets = gets[n:]
	}
	return out, nil
}

// readUntilAnswered gives up when no repeat can help: the revision is compacted
// or, after a restore, of another history.
func readUntilAnswered(ctx context.Context, s *Store, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	for try := 0; ; try++ {
		resp, err := s.Read(ctx, gets...)
		switch {
		case err == nil:
			return resp, nil
		case notApplied(err) || isAuthError(err) || errors.Is(err, ErrHistoryRewound) || ctx.Err() != nil:
			return nil, err
		}
		if perr := pause(ctx, try); perr != nil {
			return nil, errors.Join(perr, err)
		}
	}
}
