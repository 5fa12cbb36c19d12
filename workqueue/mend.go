package workqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Decode reads the record of a job of any queue, live, done or dead, as it was found
// in etcd; ownerLives is asked whether a claim's owner has its session, with
// the revision at which it began, and may be nil, which means that it has. It talks
// to nobody. The error matches [ErrUndecodable] when the record cannot be read,
// [ErrNewer] too where a newer program could, and wraps coord.ErrInvalid when the key
// is none of a job.
func (qs Queues) Decode(kv *mvccpb.KeyValue, ownerLives func(sid string, rev int64) bool) (*Job, error) {
	keys, err := keyspace.New(qs.Root)
	if err != nil {
		return nil, err
	}
	p, ok := keys.Parse(string(kv.Key))
	where, known := map[string]place{"jobs": inJobs, "done": inDone, "dead": inDead}[p.Kind]
	if !ok || !known {
		return nil, &coord.InputError{Field: "key", Value: string(kv.Key), Reason: "it is no key of a job"}
	}
	r, err := txns{keys: keys.Queue(p.Queue), space: keys}.decode(where, kv)
	if err != nil {
		return nil, err
	}
	if ownerLives == nil {
		ownerLives = func(string, int64) bool { return true }
	}
	return r.view(p.Queue, where, kv.ModRevision, time.Now(), ownerLives), nil
}

// Bury moves a job that waits to the dead letters, with By.Reason as its error. It
// returns as Cancel does; a claimed job is not its to bury: see BreakClaim.
func (q *Queue) Bury(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, verbBury, by)
}

// Salvage makes a dead letter of a record that cannot be read, wherever it lies under
// that ID. What of it can be read is kept; where that is not certain to be all, the
// payload is the whole record, byte for byte. By.Revision must be the mod revision of
// the record that was seen. It returns the dead letter; [ErrNotFound] when nothing is
// there; [ErrConflict] when the record moved; [ErrNotApplicable] when it can be read,
// when a newer program could read it ([ErrNewer] too), when it is too large, or when
// there is a dead letter of that ID already.
func (q *Queue) Salvage(ctx context.Context, id string, by By) (*Job, error) {
	what := fmt.Sprintf("salvage: job %s of %s", id, q.name)
	if err := errors.Join(by.validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if by.Revision <= 0 {
		return nil, fmt.Errorf("%s: %w", what, &coord.InputError{Field: "revision", Value: fmt.Sprint(by.Revision), Reason: "it is that of the record that was seen"})
	}
	resp, err := q.store.Read(ctx, clientv3.OpGet(q.keys.Job(id)), clientv3.OpGet(q.keys.Done(id)), clientv3.OpGet(q.keys.Dead(id)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found := 0
	for where := inJobs; where <= inDead; where++ {
		for _, kv := range resp.Responses[where].GetResponseRange().Kvs {
			found++
			if kv.ModRevision == by.Revision {
				return q.salvage(ctx, what, id, where, kv, by)
			}
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return nil, conflict(what, fmt.Errorf("it is not at revision %d any more", by.Revision))
}

func (q *Queue) salvage(ctx context.Context, what, id string, where place, kv *mvccpb.KeyValue, by By) (*Job, error) {
	_, why := q.txns.decode(where, kv)
	switch {
	case why == nil:
		return nil, fmt.Errorf("%s: %w: it can be read", what, ErrNotApplicable)
	case errors.Is(why, ErrNewer):
		return nil, fmt.Errorf("%s: %w: %w", what, ErrNotApplicable, why)
	case len(kv.Value) > maxSalvage:
		return nil, fmt.Errorf("%s: %w: it has %d bytes, at most %d can be kept", what, ErrNotApplicable, len(kv.Value), maxSalvage)
	}
	e := event{now: time.Now(), nonce: keyspace.NewNonce(), by: by}
	r := salvaged(id, kv.Value, why, e)
	txn, err := q.txns.salvage(kv, where, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	done, err := q.committer.Do(ctx, txn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case done.Succeeded:
		return r.view(q.name, inDead, done.Revision, e.now, nobody), nil
	case done.Get(1) != nil:
		return nil, fmt.Errorf("%s: %w: there is a dead letter of that id already", what, ErrNotApplicable)
	}
	return nil, conflict(what, errMoved)
}

// maxSalvage bounds what is kept of a record, in bytes, so that its base64 fits.
const maxSalvage = 512 << 10

// salvaged makes a dead letter of what cannot be read. A record that is sound but for
// its head, its name, its owner or its counts, as after an edit by hand, keeps all its
// other fields; of any other one the payload is all that was there.
func salvaged(id string, value []byte, why error, e event) *record {
	r, err := parseRecord(value)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		r = &record{}
		r.setPayload(value)
	}
	r.Nonce, r.ID = e.nonce, id
	if r.Born == "" {
		r.Born = e.nonce
	}
	r.mendNumbers()
	r.Owner, r.OwnerRev, r.ClaimedAt, r.Assigned = "", 0, time.Time{}, false
	r.log(Attempt{EndedAt: stamp(e.now), Outcome: outcomeBuried, Error: why.Error(), Actor: e.by.Actor, Reason: e.by.Reason})
	r.bury(e, why.Error())
	return r
}

// salvage puts the dead letter in the record's place. The guard refuses when somebody
// wrote the record meanwhile; a record without a head nonce is guarded by its revision
// alone. The second compare keeps a dead letter of that id from being overwritten.
func (t txns) salvage(kv *mvccpb.KeyValue, where place, r *record) (etcdkv.Txn, error) {
	value, err := r.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	from, dead := string(kv.Key), t.keys.Dead(r.ID)
	txn := etcdkv.Txn{
		Origin: "repair",
		If:     coord.Fence{Key: from, Token: coord.Token(kv.ModRevision), Nonce: keyspace.NonceOf(kv.Value)}.Cmps(), //mutant:salvage-guard
		Then:   []clientv3.Op{clientv3.OpPut(dead, string(value))},
		Else:   []clientv3.Op{clientv3.OpGet(from)},
	}
	if where != inDead {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(dead), "=", 0))
		txn.Then = append(txn.Then, clientv3.OpDelete(from))
		txn.Else = append(txn.Else, clientv3.OpGet(dead))
	}
	if was, err := parseRecord(kv.Value); err == nil {
		was.ID = r.ID // it may name another job
		t.emptyInbox(&txn, snapshot{record: was})
	}
	return txn, nil
}
