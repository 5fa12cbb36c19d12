package workqueue

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// races are what the compares of the transitions are for: each is the world in
// which everything else is as the Txn wants it, and only that compare is not.
// A compare that is not here fails the test: write down its race.
var races = map[string]string{
	"job mod =":       "somebody wrote the job meanwhile, with a head that is the same by chance",
	"job value >":     "history went back, and another record with a smaller nonce has the same revision",
	"job value <":     "history went back, and another record with a larger nonce has the same revision",
	"done mod =":      "a job of that id was done meanwhile, or its remains changed",
	"done value >":    "history went back, and other remains with a smaller nonce have the same revision",
	"done value <":    "history went back, and other remains with a larger nonce have the same revision",
	"dead mod =":      "a job of that id died meanwhile, or its remains changed",
	"dead value >":    "history went back, and other remains with a smaller nonce have the same revision",
	"dead value <":    "history went back, and other remains with a larger nonce have the same revision",
	"job create =":    "somebody enqueued a job of that id meanwhile",
	"me create =":     "the session of whoever writes has ended on the server",
	"owner create !=": "the owner lives: its session only looked gone",
	"config mod =":    "somebody paused the queue, or changed its config otherwise, meanwhile",
	"progress mod =":  "a report of the owner arrived meanwhile",
	"worker mod =":    "the worker has left the queue, or takes fewer jobs by now",
	"leader mod =":    "the dispatcher was deposed, and another leads",
	"leader value >":  "history went back, and another leader with a smaller nonce has the same revision",
	"leader value <":  "history went back, and another leader with a larger nonce has the same revision",
	"next create =":   "somebody enqueued the next job meanwhile",
	"next done mod =": "the next job was enqueued and done meanwhile",
	"next dead mod =": "the next job was enqueued and died meanwhile",
}

// world is one queue under a root of its own, made as a Txn wants to find it.
type world struct {
	t      *testing.T
	client *clientv3.Client
	job.Txns
	me, owner job.Owner
	leader    etcdkv.Fence
	lease     clientv3.LeaseID
	names     map[string]string // key -> its name in races
	others    []string          // prefixes of queues that a Txn writes to, beside this one
}

const middleNonce = "8888888888888888"

func newWorld(t *testing.T, client *clientv3.Client) *world {
	w := &world{t: t, client: client, Txns: jobtest.Txns(t, etcdtest.Root(t))}
	w.me, w.owner = job.Owner{ID: "me.0000000000000001"}, job.Owner{ID: "owner.0000000000000002"}
	for _, s := range []*job.Owner{&w.me, &w.owner} {
		s.Rev = w.put(w.Space.Session(s.ID), `{"w":"`+middleNonce+`"}`)
	}
	w.leader = etcdkv.Fence{Key: w.Space.Root() + "elections/dispatcher/leader", Nonce: middleNonce}
	w.leader.Token = w.put(w.leader.Key, `{"w":"`+middleNonce+`"}`)
	granted, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	w.lease = granted.ID
	w.names = map[string]string{
		w.Key(job.InJobs, "x"): "job", w.Key(job.InDone, "x"): "done", w.Key(job.InDead, "x"): "dead", w.Keys.Progress("x"): "progress",
		w.Space.Session(w.me.ID): "me", w.Space.Session(w.owner.ID): "owner", w.Keys.Config(): "config", w.Keys.Worker(w.me.ID): "worker", w.leader.Key: "leader",
		w.Key(job.InJobs, "next"): "next", w.Key(job.InDone, "next"): "next done", w.Key(job.InDead, "next"): "next dead",
	}
	return w
}

func (w *world) put(key, value string, opts ...clientv3.OpOption) int64 {
	w.t.Helper()
	resp, err := w.client.Put(w.t.Context(), key, value, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *world) delete(key string) {
	w.t.Helper()
	if _, err := w.client.Delete(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(key string) (value string, rev int64) {
	w.t.Helper()
	resp, err := w.client.Get(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Value), resp.Kvs[0].ModRevision
}

// job writes the record of job x, in a state of jobtest.In, with a payload and a
// checkpoint beside it.
func (w *world) job(state string, change ...func(*job.Record)) job.Snapshot {
	w.t.Helper()
	r, where := jobtest.In(state)
	r.Nonce, r.Beside = middleNonce, 3
	if r.Claimed() {
		r.Owner, r.OwnerRev = w.owner.ID, w.owner.Rev
	}
	for _, f := range change {
		f(r)
	}
	if r.Assigned {
		w.put(w.Keys.Assigned(r.Owner, "x"), "{}")
	}
	value, err := r.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if where != job.InDone {
		w.put(w.Keys.Payload("x"), "pay")
		w.put(w.Keys.Progress("x"), `{"w":"`+middleNonce+`","checkpoint":1}`)
	}
	return job.Snapshot{Record: r, Where: where, Rev: w.put(w.Key(where, "x"), string(value)), HasProgress: true}
}

func (w *world) progressRev() int64 {
	_, rev := w.get(w.Keys.Progress("x"))
	return rev
}

func (w *world) fence(l job.Snapshot) etcdkv.Fence {
	return etcdkv.Fence{Key: w.Key(job.InJobs, "x"), Token: l.Rev, Nonce: l.Record.Nonce}
}

// step makes the next record.
func (w *world) step(l job.Snapshot, v job.Verb, change ...func(*job.Event)) job.Next {
	w.t.Helper()
	e := jobtest.Event(v)
	e.Nonce, e.Owner, e.OwnerRev = keyspace.NewNonce(), w.me.ID, w.me.Rev
	for _, f := range change {
		f(&e)
	}
	n, err := job.Transition(l.Record, l.Where, e)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// describe names a compare as races does.
func (w *world) describe(c clientv3.Cmp) string {
	w.t.Helper()
	name, ok := w.names[string(c.KeyBytes())]
	if !ok {
		w.t.Fatalf("no name for the compared key %s", c.KeyBytes())
	}
	target := map[pb.Compare_CompareTarget]string{pb.Compare_MOD: "mod", pb.Compare_CREATE: "create", pb.Compare_VALUE: "value"}[c.GetCompare().Target]
	result := map[pb.Compare_CompareResult]string{pb.Compare_EQUAL: "=", pb.Compare_NOT_EQUAL: "!=", pb.Compare_GREATER: ">", pb.Compare_LESS: "<"}[c.GetCompare().Result]
	return name + " " + target + " " + result
}

// spoil makes the world in which only compare i of the Txn does not hold. For a
// head compare it returns the Txn with the revision that its guard would have, had
// history gone back to it.
func (w *world) spoil(txn etcdkv.Txn, i int) etcdkv.Txn {
	w.t.Helper()
	key := string(txn.If[i].KeyBytes())
	value, rev := w.get(key)
	switch txn.If[i].GetCompare().Target {
	case pb.Compare_MOD:
		w.put(key, cmp.Or(value, "{}"))
	case pb.Compare_CREATE:
		switch {
		case rev == 0:
			w.put(key, "{}")
		case txn.If[i].GetCompare().Result == pb.Compare_EQUAL:
			w.delete(key)
		}
	case pb.Compare_VALUE:
		nonce := "0000000000000001"
		if txn.If[i].GetCompare().Result == pb.Compare_LESS {
			nonce = "fffffffffffffff0"
		}
		again := w.put(key, strings.Replace(value, middleNonce, nonce, 1))
		txn.If = slices.Clone(txn.If)
		for k, c := range txn.If {
			if string(c.KeyBytes()) == key && c.GetCompare().Target == pb.Compare_MOD {
				txn.If[k] = clientv3.Compare(clientv3.ModRevision(key), "=", again)
			}
		}
	}
	return txn
}

func (w *world) apply(txn etcdkv.Txn) *clientv3.TxnResponse {
	w.t.Helper()
	resp, err := w.client.Txn(w.t.Context()).If(txn.If...).Then(txn.Then...).Else(txn.Else...).Commit()
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// holding tells which compares hold.
func (w *world) holding(txn etcdkv.Txn) []bool {
	w.t.Helper()
	var held []bool
	for _, c := range txn.If {
		held = append(held, w.apply(etcdkv.Txn{If: []clientv3.Cmp{c}, Then: []clientv3.Op{clientv3.OpGet("x")}, Else: []clientv3.Op{clientv3.OpGet("x")}}).Succeeded)
	}
	return held
}

// contents lists the queue's keys, and those of others, without the shards of jobs/.
func (w *world) contents() []string {
	w.t.Helper()
	var kvs []*mvccpb.KeyValue
	for _, prefix := range append([]string{w.Keys.Prefix()}, w.others...) {
		resp, err := w.client.Get(w.t.Context(), prefix, clientv3.WithPrefix())
		if err != nil {
			w.t.Fatal(err)
		}
		kvs = append(kvs, resp.Kvs...)
	}
	var found []string
	for _, kv := range kvs {
		p, _ := w.Space.Parse(string(kv.Key))
		name := string(p.Kind)
		if p.Queue != w.Keys.Name() {
			name = p.Queue + "/" + name
		}
		for _, part := range []string{strings.TrimRight(p.Session, "0123456789."), p.ID} {
			if part != "" {
				name += "/" + part
			}
		}
		found = append(found, name)
		if r, err := w.Decode(map[string]job.Place{"jobs": job.InJobs, "done": job.InDone, "dead": job.InDead}[p.Kind], kv); err == nil {
			// Only what is in done/ hangs on a lease; a job never does.
			if onLease := clientv3.LeaseID(kv.Lease) == w.lease; onLease != (p.Kind == "done") {
				w.t.Errorf("%s of job %s has lease %x", p.Kind, r.ID, kv.Lease)
			}
		}
	}
	slices.Sort(found)
	return found
}

// Each compare of each Txn closes a race: in its world, with all others as they
// should be, the whole Txn is refused; without it, it is applied.
func TestEveryCompareOfEveryTxnClosesARace(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	for _, tc := range txnCases {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, client)
			txn := mustBuild(w, tc, "")
			if held := w.holding(txn); slices.Contains(held, false) {
				t.Fatalf("not every compare holds to begin with: %v", held)
			}
			if !w.apply(txn).Succeeded {
				t.Fatal("refused in its own world")
			}
			if got := w.contents(); !slices.Equal(got, tc.left) {
				t.Errorf("leaves %q, want %q", got, tc.left)
			}
			if again := w.apply(txn); again.Succeeded && len(txn.If) > 0 {
				t.Error("applied a second time: a repeat would be no repeat")
			}
			var closed []string
			for i := range txn.If {
				closed = append(closed, w.describe(txn.If[i]))
			}
			if !slices.Equal(closed, tc.closes) {
				t.Errorf("closes %q, must close %q", closed, tc.closes)
			}
			for i, race := range closed {
				t.Run(race, func(t *testing.T) { checkRace(newWorld(t, client), tc, i, race) })
			}
		})
	}
}

func mustBuild(w *world, tc txnCase, race string) etcdkv.Txn {
	w.t.Helper()
	txn, err := tc.build(w)
	if err != nil {
		w.t.Fatal(err)
	}
	if slices.Contains(tc.closes, livingOwner) && race != livingOwner {
		ownerGone(w)
	}
	return txn
}

// checkRace plays the race that compare i of the case closes.
func checkRace(w *world, tc txnCase, i int, race string) {
	t := w.t
	if races[race] == "" {
		t.Fatalf("nobody wrote down which race the compare %q closes", race)
	}
	txn := w.spoil(mustBuild(w, tc, race), i)
	for k, held := range w.holding(txn) {
		if held != (k != i) {
			t.Fatalf("%s: compare %d (%s) holds: %v", races[race], k, w.describe(txn.If[k]), held)
		}
	}
	before, err := w.client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	resp := w.apply(txn)
	if resp.Succeeded || resp.Header.Revision != before.Header.Revision {
		t.Errorf("applied although %s", races[race])
	}
	if len(resp.Responses) == 0 {
		t.Error("nobody is told what was there instead")
	}
	txn.If = slices.Delete(slices.Clone(txn.If), i, i+1)
	if !w.apply(txn).Succeeded {
		t.Error("refused without the compare too: something else closes the race already")
	}
}

// A finished job without a retention lease would never go away.
func TestADoneJobNeedsALease(t *testing.T) {
	r, _ := jobtest.In("claimed")
	n, err := job.Transition(r, job.InJobs, jobtest.Event(job.VerbComplete))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobtest.Txns(t, "/t/").Close(etcdkv.Fence{}, job.Snapshot{Record: r}, n, 0); err == nil {
		t.Error("a done job was kept for ever")
	}
}

// The registration of a session that the server has given up would linger for as
// long as its lease, and draw jobs to nobody.
func TestALostSessionDoesNotRegister(t *testing.T) {
	client, q, s := openServed(t)
	w := &Worker{q: q, cfg: WorkerConfig{}.withDefaults()}
	registered := func() bool {
		resp, err := client.Get(t.Context(), q.core.Keys().Worker(s.ID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(resp.Kvs) == 1
	}
	r, err := w.register(t.Context(), s)
	if err != nil || !registered() {
		t.Errorf("registered: %v, %v", registered(), err)
	}
	for _, key := range []string{q.core.Keys().Worker(s.ID()), q.core.Store.Keys().Session(s.ID())} {
		if _, err := client.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.tell(t.Context(), 1); !errors.Is(err, coord.ErrSessionLost) || registered() {
		t.Errorf("registered without a session: %v, %v", registered(), err)
	}
}
