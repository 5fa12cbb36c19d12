package workqueue

import (
	"strings"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
)

func init() {
	races["there create ="] = "a job of that id was enqueued in the other queue meanwhile"
	races["there done create ="] = "a job of that id was enqueued in the other queue and done meanwhile"
	races["there dead create ="] = "a job of that id was enqueued in the other queue and died meanwhile"
	races["jobs create ="] = "somebody enqueued a job meanwhile"
	races["done jobs create ="] = "a job was enqueued and done meanwhile"
	races["dead jobs create ="] = "a job was enqueued and died meanwhile"
	races["workers mod <"] = "somebody serves the queue meanwhile, or serves it again"
	empty := []string{"config mod =", "jobs create =", "done jobs create =", "dead jobs create =", "workers mod <"}
	free := []string{"there create =", "there done create =", "there dead create ="}
	moved := []string{"q2/jobs/x", "q2/payloads/x", "q2/progress/x"}
	txnCases = append(txnCases,
		txnCase{"edit an open job", "edit", editing("open, later", "", nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
		txnCase{"edit its payload, which goes into the record", "edit", editing("open, due", "2", nil), []string{"jobs/x", "progress/x"}, guarding("job")},
		txnCase{"edit its payload, which goes beside", "edit", editing("open, due", strings.Repeat("2", job.InlineLimit+1), nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
		txnCase{"edit a claimed job", "edit", editing("claimed", "2", nil), []string{"jobs/x", "progress/x"}, guarding("job")},
		txnCase{"edit an assigned job", "edit", editing("claimed", "2", assigned), []string{"jobs/x", "progress/x"}, guarding("job")},
		txnCase{"move an open job", "relocate", relocating("open, due", nil), moved, guarding("job", free...)},
		txnCase{"move an assigned job", "relocate", relocating("claimed", assigned), moved, guarding("job", append(free, "progress mod =")...)},
		txnCase{"move a dead job", "relocate", relocating("dead", nil), []string{"q2/dead/x", "q2/payloads/x", "q2/progress/x"}, guarding("dead", free...)},
		txnCase{"delete an open job", "remove", removing("open, due", nil), nil, guarding("job")},
		txnCase{"delete an assigned job", "remove", removing("claimed", assigned), nil, guarding("job")},
		txnCase{"delete a done job", "remove", removing("done", nil), nil, guarding("done")},
		txnCase{"delete a dead job", "remove", removing("dead", nil), nil, guarding("dead")},
		txnCase{"remove an empty queue", "disband", func(w *world) (etcdkv.Txn, error) {
			w.names[w.Keys.Jobs()], w.names[w.Keys.DoneJobs()] = "jobs", "done jobs"
			w.names[w.Keys.DeadJobs()], w.names[w.Keys.Workers()] = "dead jobs", "workers"
			left := w.put(w.Keys.Worker(w.me.ID), `{"left":true}`)
			return w.Disband(w.put(w.Keys.Config(), `{"w":"`+middleNonce+`","paused":true}`), left), nil
		}, nil, empty},
	)
}

func assigned(r *job.Record) { r.Assigned = true }

func changes(change func(*job.Record)) []func(*job.Record) {
	if change == nil {
		return nil
	}
	return []func(*job.Record){change}
}

// editing describes a job anew; an empty payload leaves the one that lies beside.
func editing(state, payload string, change func(*job.Record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		e := &job.Edition{Description: job.Description{Payload: []byte(payload), Priority: 7}, Repacked: payload != ""}
		return w.Edit(l, w.step(l, job.VerbEdit, func(ev *job.Event) { ev.Edit = e }), e)
	}
}

// relocating moves job x to queue q2. What is there afterwards are keys of that queue,
// and nothing is left in the one that it came from.
func relocating(state string, change func(*job.Record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		there := job.Txns{Keys: w.Space.Queue("q2"), Space: w.Space}
		for where, name := range map[job.Place]string{job.InJobs: "there", job.InDone: "there done", job.InDead: "there dead"} {
			w.names[there.Key(where, "x")] = name
		}
		w.others = append(w.others, there.Keys.Prefix())
		return w.Relocate(l, w.step(l, job.VerbMove), there, job.Beside{Payload: []byte("pay"), Progress: []byte("{}"), ProgressRev: w.progressRev()})
	}
}

func removing(state string, change func(*job.Record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		w.put(w.Keys.Refused("x"), "{}")
		return w.Remove(l), nil
	}
}
