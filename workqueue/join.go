package workqueue

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
)

// joinedOps are what a caller adds to the Txn that completes a job.
type joinedOps struct {
	ops    []clientv3.Op
	cmps   []clientv3.Cmp
	jobs   []keyspace.ParsedKey // that the ops enqueue
	fences []coord.Fence        // of other claims of the caller
}

const (
	// maxJoinedFences is how many further claims a completion may depend on.
	maxJoinedFences = 16
	// maxJoinedCompares is what etcd's limit of 128 operations leaves for the compares of
	// fences and of jobs that are enqueued, three each.
	maxJoinedCompares = 123
)

// joinable checks the caller's fences and ops, and adds the compares for them.
func joinable(keys keyspace.Keyspace, fences []coord.Fence, ops []clientv3.Op) (joinedOps, error) {
	j := joinedOps{ops: ops, fences: fences}
	if len(fences) > maxJoinedFences {
		return joinedOps{}, &coord.InputError{Field: "fences", Value: fmt.Sprint(len(fences)), Reason: fmt.Sprintf("at most %d can join a completion", maxJoinedFences)}
	}
	for _, f := range fences {
		if f.Key == "" || f.Token <= 0 {
			return joinedOps{}, &coord.InputError{Field: "fence", Value: f.Key + "@" + f.Token.String(), Reason: "it belongs to no claim; take it from a claim, hold or term"}
		}
		j.cmps = append(j.cmps, f.Cmps()...)
	}
	var others []clientv3.Op
	fresh := map[string]bool{} // the payload keys of the jobs that are enqueued
	for _, op := range ops {
		if p, ok := freshJob(keys, op); ok {
			fresh[keys.Queue(p.Queue).Payload(p.ID)] = true
		}
	}
	for _, op := range ops {
		p, enqueues := freshJob(keys, op)
		switch {
		case enqueues:
			q := keys.Queue(p.Queue)
			j.jobs = append(j.jobs, p)
			j.cmps = append(j.cmps,
				clientv3.Compare(clientv3.CreateRevision(q.Job(p.ID)), "=", 0), //mutant:join-new
				clientv3.Compare(clientv3.ModRevision(q.Done(p.ID)), "=", 0),
				clientv3.Compare(clientv3.ModRevision(q.Dead(p.ID)), "=", 0))
		case !op.IsTxn() && op.IsPut() && fresh[string(op.KeyBytes())]:
			// Beside a job that is enqueued in the same Txn.
		default:
			others = append(others, op)
		}
	}
	if n := len(fences) + len(j.jobs); 3*n > maxJoinedCompares {
		return joinedOps{}, &coord.InputError{Field: "ops", Value: fmt.Sprint(n), Reason: fmt.Sprintf("at most %d fences and enqueued jobs together can join a completion", maxJoinedCompares/3)}
	}
	if len(ops) > 60 {
		others = ops // for the error
	}
	return j, etcdkv.CheckOps(keys, others) //mutant:join-outside-root
}

// join adds it to a Txn that closes a claim, whose Else gets one key.
func (j joinedOps) join(txn *etcdkv.Txn, keys keyspace.Keyspace) {
	if len(j.ops) == 0 && len(j.fences) == 0 {
		return
	}
	txn.If = append(txn.If, j.cmps...)
	txn.Then = append(txn.Then, j.ops...)
	txn.Origin = "caller"
	for _, f := range j.fences {
		txn.Else = append(txn.Else, clientv3.OpGet(f.Key))
	}
	for _, p := range j.jobs {
		for _, where := range joinedPlaces {
			txn.Else = append(txn.Else, clientv3.OpGet(txns{keys: keys.Queue(p.Queue)}.key(where, p.ID)))
		}
	}
}

// errJoined marks the refusal of a completion for a claim of the caller other than the
// job's, which is still current: it can be closed in another way.
var errJoined = errors.New("a claim that joins the completion is over, the job's is not")

// joinedPlaces is where a job of an ID can be.
var joinedPlaces = []place{inJobs, inDone, inDead}

// inTheWay is the fence or the job because of which a Txn with j was refused, where its
// own fence is current; nil means that it is none.
func (j joinedOps) inTheWay(ctx context.Context, q *Queue, own coord.Fence, r lane.Result) error {
	if err := refusal(r, append([]coord.Fence{own}, j.fences...)...); errors.Is(err, coord.ErrFenced) {
		return fmt.Errorf("%w: %w", errJoined, err)
	}
	i := 1 + len(j.fences)
	for _, p := range j.jobs {
		for _, where := range joinedPlaces {
			kv := r.Get(i)
			i++
			if kv == nil {
				continue
			}
			rec, err := decodeRecord(kv.Value)
			if err != nil {
				return fmt.Errorf("%w: job %s in queue %s, but it cannot be read: %w", ErrExists, p.ID, p.Queue, err)
			}
			return &ExistsError{Job: rec.view(p.Queue, where, kv.ModRevision, q.index.now(), q.presumedAlive(ctx))}
		}
	}
	return nil
}

// freshJob tells whether op puts a job that was never claimed, under its own key.
func freshJob(keys keyspace.Keyspace, op clientv3.Op) (p keyspace.ParsedKey, ok bool) {
	if op.IsTxn() || !op.IsPut() {
		return p, false
	}
	if p, ok = keys.Parse(string(op.KeyBytes())); !ok || p.Kind != "jobs" {
		return p, false
	}
	r, err := decodeRecord(op.ValueBytes())
	return p, err == nil && r.ID == p.ID && !r.claimed() && r.Attempt == 0
}

// refusal is why a Txn was refused that got the keys of these fences, in order: see
// [lane.Result.Refusal]. A fence that is not current is a [coord.FencedError].
func refusal(r lane.Result, fences ...coord.Fence) error {
	claims := make([]etcdkv.Fence, len(fences))
	for i, f := range fences {
		claims[i] = etcdkv.Fence{Key: f.Key, Token: int64(f.Token), Nonce: f.Nonce}
	}
	err := r.Refusal(claims...)
	if fenced := (*coord.FencedError)(nil); errors.As(err, &fenced) {
		return fenced
	}
	return err
}
