package job

import (
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// JoinedOps are what a caller adds to the Txn that completes a job.
type JoinedOps struct {
	Ops    []clientv3.Op
	cmps   []clientv3.Cmp
	Jobs   []keyspace.ParsedKey // that the ops enqueue
	Fences []etcdkv.Fence       // of other claims of the caller
}

const (
	// maxJoinedFences is how many further claims a completion may depend on.
	maxJoinedFences = 16
	// maxJoinedCompares is what etcd's limit of 128 operations leaves for the compares of
	// fences and of jobs that are enqueued, three each.
	maxJoinedCompares = 123
)

// Joinable checks the caller's fences and ops, and adds the compares for them.
func Joinable(keys keyspace.Keyspace, fences []etcdkv.Fence, ops []clientv3.Op) (JoinedOps, error) {
	j := JoinedOps{Ops: ops, Fences: fences}
	if len(fences) > maxJoinedFences {
		return JoinedOps{}, &fault.InputError{Field: "fences", Value: fmt.Sprint(len(fences)), Reason: fmt.Sprintf("at most %d can join a completion", maxJoinedFences)}
	}
	for _, f := range fences {
		if f.Key == "" || f.Token <= 0 {
			return JoinedOps{}, &fault.InputError{Field: "fence", Value: fmt.Sprintf("%s@%d", f.Key, f.Token), Reason: "it belongs to no claim; take it from a claim, hold or term"}
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
			j.Jobs = append(j.Jobs, p)
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
	if n := len(fences) + len(j.Jobs); 3*n > maxJoinedCompares {
		return JoinedOps{}, &fault.InputError{Field: "ops", Value: fmt.Sprint(n), Reason: fmt.Sprintf("at most %d fences and enqueued jobs together can join a completion", maxJoinedCompares/3)}
	}
	if len(ops) > 60 {
		others = ops // for the error
	}
	return j, etcdkv.CheckOps(keys, others) //mutant:join-outside-root
}

// Join adds it to a Txn that closes a claim, whose Else gets one key.
func (j JoinedOps) Join(txn *etcdkv.Txn, keys keyspace.Keyspace) {
	if len(j.Ops) == 0 && len(j.Fences) == 0 {
		return
	}
	txn.If = append(txn.If, j.cmps...)
	txn.Then = append(txn.Then, j.Ops...)
	txn.Origin = "caller"
	for _, f := range j.Fences {
		txn.Else = append(txn.Else, clientv3.OpGet(f.Key))
	}
	for _, p := range j.Jobs {
		for _, where := range JoinedPlaces {
			txn.Else = append(txn.Else, clientv3.OpGet(Txns{Keys: keys.Queue(p.Queue)}.Key(where, p.ID)))
		}
	}
}

// JoinedPlaces is where a job of an ID can be.
var JoinedPlaces = []Place{InJobs, InDone, InDead}

// freshJob tells whether op puts a job that was never claimed, under its own key.
func freshJob(keys keyspace.Keyspace, op clientv3.Op) (p keyspace.ParsedKey, ok bool) {
	if op.IsTxn() || !op.IsPut() {
		return p, false
	}
	if p, ok = keys.Parse(string(op.KeyBytes())); !ok || p.Kind != "jobs" {
		return p, false
	}
	r, err := Decode(op.ValueBytes())
	return p, err == nil && r.ID == p.ID && !r.Claimed() && r.Attempt == 0
}
