package workqueue

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// joint is what a caller adds to the Txn that completes a job.
type joint struct {
	ops  []clientv3.Op
	cmps []clientv3.Cmp
	jobs []coord.ParsedKey // that the ops enqueue
}

// joinable checks the caller's ops, and adds the compares for those of them that
// enqueue a job.
func joinable(keys coord.Keyspace, ops []clientv3.Op) (joint, error) {
	j := joint{ops: ops}
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
	if len(ops) > 60 {
		others = ops // for the error
	}
	return j, keys.CheckOps(others) //mutant:join-outside-root
}

// join adds it to a Txn that closes a claim, whose Else gets one key.
func (j joint) join(txn *coord.Txn, keys coord.Keyspace) {
	if len(j.ops) == 0 {
		return
	}
	txn.If = append(txn.If, j.cmps...)
	txn.Then = append(txn.Then, j.ops...)
	txn.Origin = "caller"
	for _, p := range j.jobs {
		for _, where := range joinedPlaces {
			txn.Else = append(txn.Else, clientv3.OpGet(txns{keys: keys.Queue(p.Queue)}.key(where, p.ID)))
		}
	}
}

// joinedPlaces is where a job of an ID can be.
var joinedPlaces = []place{inJobs, inDone, inDead}

// inTheWay is the job because of which a Txn with j was refused; nil means that it is
// none.
func (j joint) inTheWay(ctx context.Context, q *Queue, r coord.Result) error {
	i := 1
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
func freshJob(keys coord.Keyspace, op clientv3.Op) (p coord.ParsedKey, ok bool) {
	if op.IsTxn() || !op.IsPut() {
		return p, false
	}
	if p, ok = keys.Parse(string(op.KeyBytes())); !ok || p.Kind != "jobs" {
		return p, false
	}
	r, err := decodeRecord(op.ValueBytes())
	return p, err == nil && r.ID == p.ID && !r.claimed() && r.Attempt == 0
}
