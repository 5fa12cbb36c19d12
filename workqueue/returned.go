package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// unreadPause is for how long a job is put off whose worker cannot read it: where there
// is another one, dispatchers prefer that.
const unreadPause = 10 * time.Second

// returnAssigned leaves an inbox entry that no handler works to the session's book,
// which gives the job back.
func (q *Queue) returnAssigned(s *coord.Session, kv *mvccpb.KeyValue, e event) {
	p, ok := q.store.Keys().Parse(string(kv.Key))
	if !ok || p.Session != s.ID() {
		return // no entry of this inbox: doctor shows it
	}
	r, err := decodeRecord(kv.Value)
	if err != nil || r.Owner != s.ID() || r.ID != p.ID {
		q.returnUnread(s, kv, p.ID, err)
		return
	}
	book := inside.Of(s).Book()
	if q.index.worksOn(r) || book.Abandoned(r.Nonce) {
		return // its handler's claim is in the book, or its result is being handed in
	}
	end := func(ctx context.Context) error { return q.giveBack(ctx, s, r.ID, r.Nonce, e) }
	if inside.Of(s).Keep(r.Nonce, end) == nil && book.Replace(r.Nonce, end) {
		book.Settle(r.Nonce)
	}
}

// returnUnread leaves an inbox entry that this program cannot read to the session's
// book: a newer program's job goes to a worker that can.
func (q *Queue) returnUnread(s *coord.Session, kv *mvccpb.KeyValue, id string, why error) {
	name := fmt.Sprintf("%s@%d", kv.Key, kv.ModRevision)
	if inside.Of(s).Book().Has(name) || inside.Of(s).Track(name, func(ctx context.Context) error { return q.giveBackUnread(ctx, s, id) }) != nil {
		return
	}
	q.log.Warn("give back an assigned job that this program cannot read", zap.String("job", id), zap.Error(why))
	inside.Of(s).Book().Settle(name)
}

// giveBackUnread gives back the job that an inbox entry names, as far as its own record
// says that the session has it.
func (q *Queue) giveBackUnread(ctx context.Context, s *coord.Session, id string) error {
	resp, err := q.store.Get(ctx, q.keys.Job(id))
	if err != nil {
		return fmt.Errorf("give back job %s: %w", id, err)
	}
	if len(resp.Kvs) == 0 {
		return nil // the entry is a leftover
	}
	kv := resp.Kvs[0]
	if r, err := decodeRecord(kv.Value); err == nil {
		if r.Owner != s.ID() || r.ID != id || q.index.worksOn(r) {
			return nil
		}
		return q.giveBack(ctx, s, id, r.Nonce, unbegun("its inbox entry cannot be read"))
	}
	txn, ok, err := q.txns.returnUnread(kv, s.ID(), id, event{
		nonce: keyspace.NewNonce(), now: time.Now(), at: time.Now().Add(unreadPause), token: coord.Token(kv.ModRevision),
		err: "the worker cannot read the job's record: a newer program wrote it",
	})
	if err != nil || !ok {
		return err // salvage can mend a record that nobody can read
	}
	_, err = inside.Of(s).Committer().Do(ctx, txn) // where it was refused, the job has moved on
	if errors.Is(err, coord.ErrClosed) {
		return nil
	}
	return err
}

// returnUnread gives back the claim of a record that a newer program wrote: what is not
// known in it stays as it is, its version too. The guard keeps a record that has moved
// on. It is not ok when the record is not the session's claim, or cannot be parsed.
func (t txns) returnUnread(kv *mvccpb.KeyValue, sid, id string, e event) (txn etcdkv.Txn, ok bool, err error) {
	r, err := parseRecord(kv.Value)
	if err != nil || r.Owner != sid || r.ID != id || r.OwnerRev <= 0 {
		return etcdkv.Txn{}, false, nil
	}
	r.Nonce = e.nonce
	r.endAttempt(e, outcomeReleased, e.err)
	value, err := r.reopen(e.at).record.encode()
	if err != nil {
		return etcdkv.Txn{}, false, err
	}
	return etcdkv.Txn{
		Origin: "close",
		If:     coord.Fence{Key: string(kv.Key), Token: coord.Token(kv.ModRevision), Nonce: keyspace.NonceOf(kv.Value)}.Cmps(), //mutant:unread-guard
		Then:   []clientv3.Op{clientv3.OpPut(string(kv.Key), string(value)), clientv3.OpDelete(t.keys.Assigned(sid, id))},
		Else:   []clientv3.Op{clientv3.OpGet(string(kv.Key))},
	}, true, nil
}
