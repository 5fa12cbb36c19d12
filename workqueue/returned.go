package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// unreadPause is for how long a job is put off whose worker cannot read it: where there
// is another one, dispatchers prefer that.
const unreadPause = 10 * time.Second

// returnAssigned leaves an inbox entry that no handler works to the session's book,
// which gives the job back.
func (q *Queue) returnAssigned(s *coord.Session, kv *mvccpb.KeyValue, e job.Event) {
	p, ok := q.core.Store.Keys().Parse(string(kv.Key))
	if !ok || p.Session != s.ID() {
		return // no entry of this inbox: doctor shows it
	}
	r, err := job.Decode(kv.Value)
	if err != nil || r.Owner != s.ID() || r.ID != p.ID {
		q.returnUnread(s, kv, p.ID, err)
		return
	}
	book := inside.Of(s).Book()
	if q.core.Index.WorksOn(r) || book.Stray(r.Nonce) {
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
	q.core.Log.Warn("give back an assigned job that this program cannot read", zap.String("job", id), zap.Error(why))
	inside.Of(s).Book().Settle(name)
}

// giveBackUnread gives back the job that an inbox entry names, as far as its own record
// says that the session has it.
func (q *Queue) giveBackUnread(ctx context.Context, s *coord.Session, id string) error {
	resp, err := q.core.Store.Get(ctx, q.core.Keys().Job(id))
	if err != nil {
		return fmt.Errorf("give back job %s: %w", id, err)
	}
	if len(resp.Kvs) == 0 {
		return nil // the entry is a leftover
	}
	kv := resp.Kvs[0]
	if r, err := job.Decode(kv.Value); err == nil {
		if r.Owner != s.ID() || r.ID != id || q.core.Index.WorksOn(r) {
			return nil
		}
		return q.giveBack(ctx, s, id, r.Nonce, unbegun("its inbox entry cannot be read"))
	}
	txn, ok, err := q.core.Txns.ReturnUnread(kv, s.ID(), id, job.Event{
		Nonce: keyspace.NewNonce(), Now: time.Now(), At: time.Now().Add(unreadPause), Token: job.Token(kv.ModRevision),
		Err: "the worker cannot read the job's record: a newer program wrote it",
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
