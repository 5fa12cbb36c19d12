package workqueue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/etcdkv"
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
		txnCase{"edit its payload, which goes beside", "edit", editing("open, due", strings.Repeat("2", inlineLimit+1), nil), []string{"jobs/x", "payloads/x", "progress/x"}, guarding("job")},
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
			w.names[w.keys.Jobs()], w.names[w.keys.DoneJobs()] = "jobs", "done jobs"
			w.names[w.keys.DeadJobs()], w.names[w.keys.Workers()] = "dead jobs", "workers"
			left := w.put(w.keys.Worker(w.me.id), `{"left":true}`)
			return w.disband(w.put(w.keys.Config(), `{"w":"`+middleNonce+`","paused":true}`), left), nil
		}, nil, empty},
	)
}

func assigned(r *record) { r.Assigned = true }

func changes(change func(*record)) []func(*record) {
	if change == nil {
		return nil
	}
	return []func(*record){change}
}

// editing describes a job anew; an empty payload leaves the one that lies beside.
func editing(state, payload string, change func(*record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		e := &edition{Params: Params{ID: "x", Payload: []byte(payload), Priority: 7}, repacked: payload != ""}
		return w.edit(l, w.step(l, verbEdit, func(ev *event) { ev.edit = e }), e)
	}
}

// relocating moves job x to queue q2. What is there afterwards are keys of that queue,
// and nothing is left in the one that it came from.
func relocating(state string, change func(*record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		there := txns{keys: w.space.Queue("q2"), space: w.space}
		for where, name := range map[place]string{inJobs: "there", inDone: "there done", inDead: "there dead"} {
			w.names[there.key(where, "x")] = name
		}
		w.others = append(w.others, there.keys.Prefix())
		return w.relocate(l, w.step(l, verbMove), there, besides{payload: []byte("pay"), progress: []byte("{}"), progressRev: w.progressRev()})
	}
}

func removing(state string, change func(*record)) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		l := w.job(state, changes(change)...)
		w.put(w.keys.Refused("x"), "{}")
		return w.remove(l), nil
	}
}

// Without the word for it nobody takes a job from its owner, and one that was started
// and may be once is never open again.
func TestEditAndMoveLeaveAClaimAlone(t *testing.T) {
	for _, v := range []verb{verbEdit, verbMove} {
		for name, change := range map[string]func(*record, *event){
			"not asked to":               func(_ *record, e *event) { e.by.BreakClaim = false },
			"to be started once at most": func(r *record, _ *event) { r.AtMostOnce = true },
		} {
			r, where := jobIn("claimed")
			e := testEvent(v)
			change(r, &e)
			if n, err := transition(r, where, e); !errors.Is(err, ErrNotApplicable) {
				t.Errorf("%s, %s: %s, %v", v, name, summary(n, err), err)
			}
		}
	}
}

// An edit keeps who the job is, what it went through, and what it was not asked to
// change.
func TestEditKeepsTheRest(t *testing.T) {
	r, where := jobIn("open, later")
	r.Seq, r.Beside, r.Trace, r.EnqueuedAt = 3, 2000, map[string]string{"traceparent": "t"}, stamp(testNow)
	e := testEvent(verbEdit)
	p := r.params(make([]byte, 2000))
	p.Priority, p.Timeout = 5, 1500*time.Microsecond
	e.edit = &edition{Params: p}
	n, err := transition(r, where, e)
	if err != nil {
		t.Fatal(err)
	}
	got := n.record
	if got.Priority != 5 || got.TimeoutMS != 2 || got.Beside != 2000 || !got.RunAt.Equal(r.RunAt) || got.Seq != 3 || got.Trace["traceparent"] != "t" {
		t.Errorf("got %+v", got)
	}
	if got.Attempt != 4 || got.Failures != 2 || got.Losses != 1 || got.Born != "b" || !got.EnqueuedAt.Equal(r.EnqueuedAt) {
		t.Errorf("it is another job: %+v", got)
	}
	want := Attempt{EndedAt: stamp(testNow), Outcome: outcomeEdited, Actor: "ann", Reason: "because"}
	if last := got.Attempts[1]; last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

func TestTheTrailTellsWhereAJobCameFrom(t *testing.T) {
	for state, ended := range map[string]Attempt{
		"open, due": {}, "dead": {},
		"claimed": {Attempt: 4, Owner: "old", Token: 77, ClaimedAt: stamp(testNow.Add(-time.Minute))},
	} {
		r, where := jobIn(state)
		n, err := transition(r, where, testEvent(verbMove))
		if err != nil {
			t.Fatal(err)
		}
		ended.EndedAt, ended.Outcome, ended.Actor, ended.Reason, ended.From = stamp(testNow), outcomeMoved, "ann", "because", "q"
		if last := n.record.Attempts[1]; last != ended {
			t.Errorf("%s: got %+v, want %+v", state, last, ended)
		}
	}
}
