package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
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
	where, known := map[string]job.Place{"jobs": job.InJobs, "done": job.InDone, "dead": job.InDead}[p.Kind]
	if !ok || !known {
		return nil, &coord.InputError{Field: "key", Value: string(kv.Key), Reason: "it is no key of a job"}
	}
	r, err := job.Txns{Keys: keys.Queue(p.Queue), Space: keys}.Decode(where, kv)
	if err != nil {
		return nil, err
	}
	if ownerLives == nil {
		ownerLives = func(string, int64) bool { return true }
	}
	return view(r, p.Queue, where, kv.ModRevision, time.Now(), ownerLives), nil
}

// Bury moves a job that waits to the dead letters, with By.Reason as its error. It
// returns as Cancel does; a claimed job is not its to bury: see BreakClaim.
func (q *Queue) Bury(ctx context.Context, id string, by By) (*Job, error) {
	return q.intervene(ctx, id, job.VerbBury, by)
}

// Salvage makes a dead letter of a record that cannot be read, wherever it lies under
// that ID. What of it can be read is kept; where that is not certain to be all, the
// payload is the whole record, byte for byte. By.Revision must be the mod revision of
// the record that was seen. It returns the dead letter; [ErrNotFound] when nothing is
// there; [ErrConflict] when the record moved; [ErrNotApplicable] when it can be read,
// when a newer program could read it ([ErrNewer] too), when it is too large, or when
// there is a dead letter of that ID already.
func (q *Queue) Salvage(ctx context.Context, id string, by By) (*Job, error) {
	what := fmt.Sprintf("salvage: job %s of %s", id, q.core.Name)
	if err := errors.Join(by.inner().Validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if by.Revision <= 0 {
		return nil, fmt.Errorf("%s: %w", what, &coord.InputError{Field: "revision", Value: fmt.Sprint(by.Revision), Reason: "it is that of the record that was seen"})
	}
	resp, err := q.core.Store.Read(ctx, clientv3.OpGet(q.core.Keys.Job(id)), clientv3.OpGet(q.core.Keys.Done(id)), clientv3.OpGet(q.core.Keys.Dead(id)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found := 0
	for where := job.InJobs; where <= job.InDead; where++ {
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
	return nil, queue.Conflict(what, fmt.Errorf("it is not at revision %d any more", by.Revision))
}

func (q *Queue) salvage(ctx context.Context, what, id string, where job.Place, kv *mvccpb.KeyValue, by By) (*Job, error) {
	_, why := q.core.Txns.Decode(where, kv)
	switch {
	case why == nil:
		return nil, fmt.Errorf("%s: %w: it can be read", what, ErrNotApplicable)
	case errors.Is(why, ErrNewer):
		return nil, fmt.Errorf("%s: %w: %w", what, ErrNotApplicable, why)
	case len(kv.Value) > maxSalvage:
		return nil, fmt.Errorf("%s: %w: it has %d bytes, at most %d can be kept", what, ErrNotApplicable, len(kv.Value), maxSalvage)
	}
	e := job.Event{Now: time.Now(), Nonce: keyspace.NewNonce(), By: by.inner()}
	r := job.Salvaged(id, kv.Value, why, e)
	txn, err := q.core.Txns.Salvage(kv, where, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	done, err := q.core.Committer.Do(ctx, txn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case done.Succeeded:
		return view(r, q.core.Name, job.InDead, done.Revision, e.Now, queue.Nobody), nil
	case done.Get(1) != nil:
		return nil, fmt.Errorf("%s: %w: there is a dead letter of that id already", what, ErrNotApplicable)
	}
	return nil, queue.Conflict(what, queue.ErrMoved)
}

// maxSalvage bounds what is kept of a record, in bytes, so that its base64 fits.
const maxSalvage = 512 << 10
