package workqueue

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
)

// txnCase builds one transition's Txn in a world. ownerLives is the one world
// that cannot be made afterwards: a key never gets an older create revision.
type txnCase struct {
	name string
	// builders are the methods of txns that the case covers.
	builders string
	build    func(w *world) (etcdkv.Txn, error)
	// left is what is there under the queue when the Txn was applied.
	left []string
	// closes are the races that it must close, one per compare, in their order.
	closes []string
}

// guarding lists what guards a record in one directory, and what follows.
func guarding(dir string, more ...string) []string {
	return append([]string{dir + " mod =", dir + " value >", dir + " value <"}, more...)
}

var (
	creating   = []string{"job create =", "done mod =", "dead mod ="}
	claiming   = guarding("job", "me create =", "config mod =")
	reclaiming = append(slices.Clone(claiming), "owner create !=", "progress mod =")
)

const livingOwner = "owner create !="

// ownerGone ends the owner's session, unless the race is that it did not end.
func ownerGone(w *world) { w.delete(w.Space.Session(w.owner.ID)) }

var txnCases = []txnCase{
	{"enqueue a fresh job", "enqueue", func(w *world) (etcdkv.Txn, error) {
		return w.Enqueue(job.New(job.Description{ID: "x"}, 1, jobtest.Now), nil, job.EnqueueSeen{})
	}, []string{"jobs/x"}, creating},
	{"enqueue a job whose id was drawn", "enqueue", func(w *world) (etcdkv.Txn, error) {
		return w.Enqueue(job.New(job.Description{ID: "x"}, 1, jobtest.Now), nil, job.EnqueueSeen{Drawn: true})
	}, []string{"jobs/x"}, creating[:1]},
	{"enqueue a fresh job with its payload beside", "enqueue", func(w *world) (etcdkv.Txn, error) {
		p := make([]byte, job.InlineLimit+1)
		return w.Enqueue(job.New(job.Description{ID: "x", Payload: p}, 1, jobtest.Now), p, job.EnqueueSeen{})
	}, []string{"jobs/x", "payloads/x"}, creating},
	{"enqueue over a done job", "enqueue", func(w *world) (etcdkv.Txn, error) {
		l := w.job("done")
		return w.Enqueue(job.New(job.Description{ID: "x"}, 1, jobtest.Now), nil, job.EnqueueSeen{Done: l.Rev})
	}, []string{"jobs/x"}, creating},
	{"enqueue over a dead job", "enqueue", func(w *world) (etcdkv.Txn, error) {
		l := w.job("dead")
		return w.Enqueue(job.New(job.Description{ID: "x"}, 1, jobtest.Now), nil, job.EnqueueSeen{Dead: l.Rev})
	}, []string{"jobs/x"}, creating},
	{"claim", "claim", func(w *world) (etcdkv.Txn, error) {
		l := w.job("open, due")
		return w.Claim(l, w.step(l, job.VerbClaim), w.me, 0)
	}, []string{"jobs/x", "payloads/x", "progress/x"}, claiming},
	{"claim from a queue with a config", "claim", func(w *world) (etcdkv.Txn, error) {
		rev := w.put(w.Keys.Config(), `{"w":"`+middleNonce+`"}`)
		l := w.job("open, due")
		return w.Claim(l, w.step(l, job.VerbClaim), w.me, rev)
	}, []string{"config", "jobs/x", "payloads/x", "progress/x"}, claiming},
	{"assign an open job", "assign", func(w *world) (etcdkv.Txn, error) {
		l := w.job("open, due")
		n := w.step(l, job.VerbClaim, func(e *job.Event) { e.Assigned = true })
		return w.Assign(w.assignment(l, false, 0), n, w.leader)
	}, []string{"assigned/me/x", "jobs/x", "payloads/x", "progress/x", "workers/me"}, leading(claiming)},
	{"assign an orphan", "assign", assignAfter(0), []string{"assigned/me/x", "jobs/x", "payloads/x", "progress/x", "workers/me"}, leading(reclaiming)},
	{"assign an orphan: put back", "assign", assignAfter(1), []string{"jobs/x", "payloads/x", "progress/x", "workers/me"}, leading(reclaiming)},
	{"assign an orphan: buried", "assign", assignAfter(2), []string{"dead/x", "payloads/x", "progress/x", "workers/me"}, leading(reclaiming)},
	{"register a worker", "register", func(w *world) (etcdkv.Txn, error) {
		return w.Register(w.me, w.lease, 0, `{"w":"`+middleNonce+`"}`), nil
	}, []string{"workers/me"}, []string{"me create =", "worker mod ="}},
	{"register a worker anew", "register", func(w *world) (etcdkv.Txn, error) {
		return w.Register(w.me, w.lease, w.put(w.Keys.Worker(w.me.ID), "{}"), `{"w":"`+middleNonce+`"}`), nil
	}, []string{"workers/me"}, []string{"me create =", "worker mod ="}},
	{"give back what cannot be read", "returnUnread", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed", func(r *job.Record) { r.Assigned = true })
		value, rev := w.get(w.Keys.Job("x"))
		txn, ok, err := w.ReturnUnread(&mvccpb.KeyValue{Key: []byte(w.Keys.Job("x")), Value: []byte(value), ModRevision: rev}, w.owner.ID, "x", job.Event{Nonce: "1", Now: jobtest.Now})
		if !ok {
			w.t.Fatal("it is not the owner's claim", l)
		}
		return txn, err
	}, []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"complete an assigned job", "close", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed", func(r *job.Record) { r.Assigned = true })
		return w.Close(w.fence(l), l, w.step(l, job.VerbComplete), w.lease)
	}, []string{"done/x"}, guarding("job")},
	{"break an assigned claim", "intervene", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed", func(r *job.Record) { r.Assigned = true })
		return w.Intervene(l, w.step(l, job.VerbBreak), w.lease)
	}, []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"reclaim: claimed by another", "reclaim", reclaimAfter(0), []string{"jobs/x", "payloads/x", "progress/x"}, reclaiming},
	{"reclaim: put back", "reclaim", reclaimAfter(1), []string{"jobs/x", "payloads/x", "progress/x"}, reclaiming},
	{"reclaim: buried", "reclaim", reclaimAfter(2), []string{"dead/x", "payloads/x", "progress/x"}, reclaiming},
	{"complete", "close", closedBy(job.VerbComplete, nil), []string{"done/x"}, guarding("job")},
	{"fail", "close", closedBy(job.VerbFail, nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"fail for good", "close", closedBy(job.VerbFail, func(e *job.Event) { e.Permanent = true }), []string{"dead/x", "payloads/x", "progress/x"}, guarding("job")},
	{"snooze", "close", closedBy(job.VerbSnooze, nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"release", "close", closedBy(job.VerbRelease, nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"cancel by the handler", "close", closedBy(job.VerbCancel, nil), []string{"done/x"}, guarding("job")},
	{"complete together with the next job", "close", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed")
		txn, err := w.Close(w.fence(l), l, w.step(l, job.VerbComplete), w.lease)
		if err != nil {
			return txn, err
		}
		q := &Queue{core: &queue.Core{Txns: w.Txns}, cfg: Config{}.withDefaults()}
		_, _, ops, err := q.EnqueueOps(Params{ID: "next"})
		if err != nil {
			return txn, err
		}
		joined, err := job.Joinable(w.Space, nil, ops)
		joined.Join(&txn, w.Space)
		return txn, err
	}, []string{"done/x", "jobs/next"}, guarding("job", "next create =", "next done mod =", "next dead mod =")},
	{"complete under the fence of another claim", "close", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed")
		txn, err := w.Close(w.fence(l), l, w.step(l, job.VerbComplete), w.lease)
		if err != nil {
			return txn, err
		}
		joined, err := job.Joinable(w.Space, []etcdkv.Fence{w.leader}, nil)
		joined.Join(&txn, w.Space)
		return txn, err
	}, []string{"done/x"}, guarding("job", guarding("leader")...)},
	{"report progress for the first time", "progress", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed")
		w.delete(w.Keys.Progress("x"))
		return w.Progress(w.fence(l), "x", `{"w":"`+keyspace.NewNonce()+`"}`, 0), nil
	}, []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job", "progress mod =")},
	{"checkpoint again", "progress", func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed")
		return w.Progress(w.fence(l), "x", `{"w":"`+keyspace.NewNonce()+`"}`, w.progressRev()), nil
	}, []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job", "progress mod =")},
	{"cancel an open job", "intervene", intervening("open, later", job.VerbCancel), []string{"done/x"}, guarding("job")},
	{"cancel a claimed job", "intervene", intervening("claimed", job.VerbCancel), []string{"done/x"}, guarding("job")},
	{"break a claim", "intervene", intervening("claimed", job.VerbBreak), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"requeue a dead job", "intervene", intervening("dead", job.VerbRequeue), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("dead", "job create =")},
	{"requeue a done job", "intervene", intervening("done", job.VerbRequeue), []string{"jobs/x"}, guarding("done", "job create =")},
	{"requeue a job that waits after a failure", "intervene", intervening("open, later", job.VerbRequeue), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
	{"configure for the first time", "configure", func(w *world) (etcdkv.Txn, error) {
		return w.Configure(job.QueueConfig{Paused: true}, 0)
	}, []string{"config"}, []string{"config mod ="}},
	{"configure again", "configure", func(w *world) (etcdkv.Txn, error) {
		return w.Configure(job.QueueConfig{Paused: true}, w.put(w.Keys.Config(), `{}`))
	}, []string{"config"}, []string{"config mod ="}},
	{"keep the evidence of a refusal", "refused", func(w *world) (etcdkv.Txn, error) {
		return w.Refused("x", "{}", w.lease), nil
	}, []string{"refused/x"}, nil},
}

// leading adds the worker's registration and the leader's fence.
func leading(closes []string) []string {
	return append(append(slices.Clone(closes), "worker mod ="), guarding("leader")...)
}

// assignment gives a job to me, a registered worker.
func (w *world) assignment(l job.Snapshot, orphan bool, progress int64) job.Assignment {
	rev := w.put(w.Keys.Worker(w.me.ID), `{"w":"`+middleNonce+`","concurrency":1}`)
	return job.Assignment{Snapshot: l, Orphan: orphan, To: w.me, Registered: rev, Progress: progress}
}

// assignAfter assigns an orphan that was assigned to its lost owner too.
func assignAfter(losses int) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed", func(r *job.Record) { r.Losses, r.MaxLosses, r.Assigned = losses, 3, true })
		n := w.step(l, job.VerbReclaim, func(e *job.Event) { e.Counted, e.Assigned = true, true })
		return w.Assign(w.assignment(l, true, w.progressRev()), n, w.leader)
	}
}

func reclaimAfter(losses int) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed", func(r *job.Record) { r.Losses, r.MaxLosses = losses, 3 })
		n := w.step(l, job.VerbReclaim, func(e *job.Event) { e.Counted = true })
		return w.Reclaim(l, n, w.me, 0, w.progressRev())
	}
}

func closedBy(v job.Verb, change func(*job.Event)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job("claimed")
		n := w.step(l, v, func(e *job.Event) {
			if change != nil {
				change(e)
			}
		})
		return w.Close(w.fence(l), l, n, w.lease)
	}
}

func intervening(state string, v job.Verb) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state)
		return w.Intervene(l, w.step(l, v), w.lease)
	}
}
