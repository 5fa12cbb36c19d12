package lane

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

// outcomes is one unit of every kind, and what it must do to a world in which
// have=1 and gone=1 exist.
func outcomes(w *faultkv.World, have int64) []struct {
	name      string
	txn       etcdkv.Txn
	succeeded bool
	gets      []string // per op of the branch: the value read, "-" for none
} {
	key := func(name string) string { return w.Data + name }
	absent := func(name string) []clientv3.Cmp {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key(name)), "=", 0)}
	}
	put := func(name, value string) clientv3.Op { return clientv3.OpPut(key(name), value) }
	get := func(name string) clientv3.Op { return clientv3.OpGet(key(name)) }
	return []struct {
		name      string
		txn       etcdkv.Txn
		succeeded bool
		gets      []string
	}{
		{"success", etcdkv.Txn{If: absent("new"), Then: []clientv3.Op{put("new", "1")}, Else: []clientv3.Op{get("new")}}, true, nil},
		{
			"failed compare, Else is replayed",
			etcdkv.Txn{If: absent("have"), Then: []clientv3.Op{put("have", "2")}, Else: []clientv3.Op{get("have"), get("missing")}},
			false, []string{"1", "-"},
		},
		{"delete only", etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(key("gone"))}}, true, nil},
		{
			"delete only, failed compare",
			etcdkv.Txn{
				If:   []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key("kept")), "=", have+1)},
				Then: []clientv3.Op{clientv3.OpDelete(key("kept"))},
			}, false, nil,
		},
		{"nothing to do but prove", etcdkv.Txn{If: absent("proof")}, true, nil},
		{
			"nested, taken",
			etcdkv.Txn{Then: []clientv3.Op{clientv3.OpTxn(absent("inner"), []clientv3.Op{put("inner", "1")}, nil)}},
			true, []string{"-"},
		},
		{
			"nested, not taken",
			etcdkv.Txn{Then: []clientv3.Op{put("outer", "1"), clientv3.OpTxn(absent("have2"), []clientv3.Op{put("have2", "2")}, []clientv3.Op{get("have2")})}},
			true, nil,
		},
		{
			"puts and deletes again",
			etcdkv.Txn{Then: []clientv3.Op{
				clientv3.OpTxn(nil, []clientv3.Op{put("brief", "1")}, nil),
				clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(key("brief"))}, nil),
				get("brief"),
			}},
			true, []string{"-", "-", "-"},
		},
		{
			"gets",
			etcdkv.Txn{Then: []clientv3.Op{put("claim", "1"), get("payload"), get("nothing")}},
			true, []string{"-", "bytes", "-"},
		},
		{
			"gets what it writes, before and after",
			etcdkv.Txn{Then: []clientv3.Op{get("twice"), put("twice", "2"), put("thrice", "3"), get("thrice")}},
			true, []string{"1", "-", "-", "3"},
		},
	}
}

// However an answer is lost, every unit of the batch happens once, each caller is
// told exactly what its unit did and read, and a late original changes nothing.
func TestLostAnswersAreResolvedUnitByUnit(t *testing.T) {
	t.Parallel()
	for i := range 2 * len(faultkv.Lossy) {
		loss, shape, plain := faultkv.Lossy[i/2], "lean", 0
		if i%2 == 1 {
			shape, plain = "plain", maxBatchUnits
		}
		t.Run(loss.Name+"/"+shape, func(t *testing.T) {
			t.Parallel()
			w := faultkv.NewWorld(t)
			c := committer(t, w)
			c.plain = plain
			mustApply(t, c, faultkv.PutTxn(w.Data+"opened", ""))
			var have int64
			for _, name := range []string{"have", "gone", "kept", "have2", "twice"} {
				have = w.Put(t, name, "1")
			}
			w.Put(t, "payload", "bytes")
			cases := outcomes(w, have)
			var txns []etcdkv.Txn
			for _, tt := range cases {
				txns = append(txns, tt.txn)
			}
			pending := together(t, w, c, txns, loss.Faults...)
			rev := mustWait(t, pending[0]).Revision
			if got := c.lanes[0].lane.plain; got != plain {
				t.Errorf("units of a plain batch: got %d, want %d", got, plain)
			}
			for i, tt := range cases {
				r, err := pending[i].Wait(faultkv.Within(t))
				if err != nil || r.Succeeded != tt.succeeded || r.Revision != rev {
					t.Errorf("%s: got succeeded %v at %d, error %v, want %v at %d", tt.name, r.Succeeded, r.Revision, err, tt.succeeded, rev)
				}
				for j, want := range tt.gets {
					got := "-"
					if kv := r.Get(j); kv != nil {
						got = string(kv.Value)
					}
					if got != want {
						t.Errorf("%s: op %d read %q, want %q", tt.name, j, got, want)
					}
				}
			}
			faultkv.WantVersions(t, w, map[string]int64{
				"new": 1, "have": 1, "gone": 0, "kept": 1, "inner": 1, "outer": 1, "have2": 1,
				"brief": 0, "claim": 1, "twice": 2, "thrice": 1, "missing": 0, "proof": 0,
			})
			lateChangesNothing(t, w, c)
		})
	}
}

// lateChangesNothing delivers the late originals, before and after the lane moved
// on, in a world where their guards hold again.
func lateChangesNothing(t *testing.T, w *faultkv.World, c *Committer) {
	t.Helper()
	if _, err := w.Client.Delete(faultkv.Within(t), w.Data, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	w.Put(t, "gone", "again")
	again := append([]etcdkv.Txn(nil), w.Late...)
	before := w.Dump(t)
	w.Deliver(t)
	if after := w.Dump(t); after != before {
		t.Errorf("a late original changed\n%s to\n%s", before, after)
	}
	mustApply(t, c, faultkv.PutTxn(w.Store.Keys().Root()+"other", ""))
	w.Late = again
	w.Deliver(t)
	if after := w.Dump(t); after != before {
		t.Errorf("a late original, after the lane moved on, changed\n%s to\n%s", before, after)
	}
}

// The repeat of a batch meets its own original, which arrives between the two.
func TestOriginalArrivesBeforeItsRepeat(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	gate := make(chan struct{})
	w.Faults(faultkv.Fate{Late: true}, faultkv.Fate{Hold: gate})
	p := c.Go(faultkv.PutTxn(w.Data+"once", ""))
	w.WaitSent(t, 2)
	if got := w.Arrive(t); got != 1 {
		t.Errorf("originals that took effect: got %d, want 1", got)
	}
	close(gate)
	r := mustWait(t, p)
	if !r.Succeeded || w.Version(t, "once") != 1 {
		t.Errorf("got succeeded %v, version %d, want applied once", r.Succeeded, w.Version(t, "once"))
	}
}

// A batch that etcd refuses outright, after a try whose fate is open: the lane is
// moved on first, so that the refusal is true.
func TestRefusalAfterALostRequestIsTrue(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Faults(faultkv.Fate{Late: true}, faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied}, faultkv.Fate{Lose: faultkv.ErrLost} /* of the empty batch */)
	_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"never", ""))
	faultkv.WantErr(t, err, rpctypes.ErrPermissionDenied)
	w.Deliver(t)
	faultkv.WantVersions(t, w, map[string]int64{"never": 0})

	// The same with a batch: it is split, and its parts are applied.
	c.forgive()
	pending := together(t, w, c, []etcdkv.Txn{faultkv.PutTxn(w.Data+"a", ""), faultkv.PutTxn(w.Data+"b", "")},
		faultkv.Fate{Late: true}, faultkv.Fate{Refuse: rpctypes.ErrPermissionDenied})
	for _, p := range pending {
		mustWait(t, p)
	}
	w.Deliver(t)
	faultkv.WantVersions(t, w, map[string]int64{"a": 1, "b": 1})
}

// forgive ends the quarantine of all origins.
func (c *Committer) forgive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.solo)
}

// When the lane's revision is compacted before anybody could read what the units
// did, nobody claims to know.
func TestCompactedRevisionIsUnknown(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, etcdtest.Config{})
	w := faultkv.WorldOn(t, cluster.Client(t))
	c := openedCommitter(t, w)
	compact := func() {
		rev := w.Put(t, "later", "")
		if _, err := w.Client.Compact(faultkv.Within(t), rev); err != nil {
			t.Error(err)
		}
	}
	w.Faults(faultkv.Fate{Lose: faultkv.ErrLost, Then: compact})
	p := c.Go(faultkv.PutTxn(w.Data+"a", ""))
	_, err := p.Wait(faultkv.Within(t))
	faultkv.WantErr(t, err, fault.ErrUnknown)
	faultkv.WantErr(t, err, rpctypes.ErrCompacted)
	// The lane itself is known, and goes on.
	sent := w.Sent()
	mustApply(t, c, faultkv.PutTxn(w.Data+"b", ""))
	if w.Sent() != sent+1 {
		t.Errorf("the next batch took %d requests, want 1", w.Sent()-sent)
	}
}

// What is read to resolve a batch is asked for until there is an answer.
func TestResolvingOutlivesFailedReads(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Put(t, "payload", "bytes")
	w.Faults(faultkv.Fate{Lose: faultkv.ErrLost})
	w.ReadPlan = func(n int) error {
		if n%2 == 1 && n < 6 {
			return faultkv.ErrLost
		}
		return nil
	}
	r := mustWait(t, c.Go(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+"a", ""), clientv3.OpGet(w.Data + "payload")}}))
	if kv := r.Get(1); kv == nil || string(kv.Value) != "bytes" {
		t.Errorf("payload: got %v, want bytes", kv)
	}
	// Nobody may read any more: then nobody knows.
	w.Faults(faultkv.Fate{Lose: faultkv.ErrLost})
	w.ReadPlan = func(int) error { return rpctypes.ErrPermissionDenied }
	_, err := c.Do(faultkv.Within(t), faultkv.PutTxn(w.Data+"b", ""))
	faultkv.WantErr(t, err, fault.ErrUnknown)
	faultkv.WantErr(t, err, rpctypes.ErrPermissionDenied)
}

func TestLaneTxnHasTheShapeThatItsProofNeeds(t *testing.T) {
	l := &lane{key: "/lanes/x/3", lease: 7, last: 42}
	units := []*unit{unitOf("w:a"), unitOf("d:b"), unitOf("r:c")}
	txn := l.wrap(units, midNonceForLane, false)
	if len(txn.If) != 1 || string(txn.If[0].GetCompare().Key) != l.key || txn.If[0].GetCompare().GetModRevision() != 42 {
		t.Errorf("If: got %v, want the lane's revision", txn.If)
	}
	if len(txn.Else) != 1 || string(txn.Else[0].KeyBytes()) != l.key {
		t.Errorf("Else: got %v, want the lane", txn.Else)
	}
	for i, want := range []string{"", "/lanes/x/3-1", "/lanes/x/3-2"} {
		_, then, _ := txn.Then[i+1].Txn()
		last := then[len(then)-1]
		if noted := len(then) > 1 && last.IsPut(); noted != (want != "") || noted && string(last.KeyBytes()) != want {
			t.Errorf("unit %d ends with %s, want note %q", i, last.KeyBytes(), want)
		}
	}
	if got := fmt.Sprint(len(units[1].txn.Then)); got != "1" {
		t.Errorf("the note must not grow the unit's own slice: got %s ops", got)
	}
}

const midNonceForLane = "5123456789abcdef"
