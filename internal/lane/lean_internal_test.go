package lane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

// cmpsOf names compares: key, target and number.
func cmpsOf(cmps []clientv3.Cmp) (names []string) {
	for i := range cmps {
		c := cmps[i].GetCompare()
		names = append(names, fmt.Sprintf("%s/%v/%d", c.Key, c.Target, c.GetModRevision()+c.GetCreateRevision()))
	}
	return names
}

func TestHoist(t *testing.T) {
	mod := func(key string, rev int64) clientv3.Cmp { return clientv3.Compare(clientv3.ModRevision(key), "=", rev) }
	created := func(key string, rev int64) clientv3.Cmp {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
	}
	tests := []struct {
		name   string
		units  [][]clientv3.Cmp
		shared []string
		rest   []string
	}{
		{"nothing in common", [][]clientv3.Cmp{{mod("a", 1)}, {mod("b", 1)}}, nil, []string{"[a/MOD/1]", "[b/MOD/1]"}},
		{
			"one in common, in any place",
			[][]clientv3.Cmp{{mod("a", 1), created("s", 5), mod("c", 3)}, {created("s", 5), mod("b", 1)}, {mod("d", 4)}},
			[]string{"s/CREATE/5"},
			[]string{"[a/MOD/1 c/MOD/3]", "[b/MOD/1]", "[d/MOD/4]"},
		},
		{
			"one key seen at two revisions: the second keeps its own",
			[][]clientv3.Cmp{{mod("a", 1), mod("s", 5)}, {mod("b", 1), mod("s", 6)}, {mod("c", 1), mod("s", 5)}},
			[]string{"s/MOD/5"},
			[]string{"[a/MOD/1]", "[b/MOD/1 s/MOD/6]", "[c/MOD/1]"},
		},
		{
			"a fence in common, all of it",
			[][]clientv3.Cmp{etcdkv.GuardOf("l", 5, midNonceForLane), etcdkv.GuardOf("l", 5, midNonceForLane), etcdkv.GuardOf("l", 6, midNonceForLane)},
			[]string{"l/MOD/5", "l/VALUE/0", "l/VALUE/0"},
			[]string{"[]", "[]", "[l/MOD/6]"},
		},
		{"no compares", [][]clientv3.Cmp{nil, nil}, nil, []string{"[]", "[]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var units []*unit
			for i, cmps := range tt.units {
				units = append(units, newUnit(etcdkv.Txn{If: cmps, Then: []clientv3.Op{clientv3.OpPut(fmt.Sprintf("own%d", i), "")}}))
			}
			shared, rest := hoist(units)
			if got := cmpsOf(shared); !slices.Equal(got, tt.shared) {
				t.Errorf("shared: got %v, want %v", got, tt.shared)
			}
			for i := range rest {
				if got := fmt.Sprint(cmpsOf(rest[i])); got != tt.rest[i] {
					t.Errorf("rest of unit %d: got %v, want %v", i, got, tt.rest[i])
				}
				if len(units[i].txn.If) != len(tt.units[i]) {
					t.Errorf("unit %d lost compares of its own", i)
				}
			}
		})
	}
}

// What etcd's budget leaves at the top of a batch is not used up by compares.
func TestHoistIsBounded(t *testing.T) {
	var units []*unit
	for i := range 2 * (maxHoisted + 1) {
		units = append(units, newUnit(etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(fmt.Sprint("k", i/2)), "=", 1)}}))
	}
	shared, rest := hoist(units)
	if len(shared) != maxHoisted {
		t.Errorf("shared: got %d, want %d", len(shared), maxHoisted)
	}
	for i := range rest {
		if want := i / (2 * maxHoisted); len(rest[i]) != want {
			t.Errorf("unit %d keeps %d compares, want %d", i, len(rest[i]), want)
		}
	}
}

// leanBatch is a lean batch of two kinds of units: ten that all need the key "common"
// to be absent, and the last, which needs nothing.
func leanBatch(w *faultkv.World) (txns []etcdkv.Txn) {
	absent := clientv3.Compare(clientv3.ModRevision(w.Data+"common"), "=", 0)
	for i := range 10 {
		key := fmt.Sprintf("%su%d", w.Data, i)
		txns = append(txns, etcdkv.Txn{
			If:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), absent},
			Then: []clientv3.Op{clientv3.OpPut(key, "1")},
			Else: []clientv3.Op{clientv3.OpGet(w.Data + "common")},
		})
	}
	return append(txns, faultkv.PutTxn(w.Data+"free", "1"))
}

// A compare that units have in common refuses exactly them, whatever becomes of the
// answers, and tells each what was in its way.
func TestCommonCompareRefusesItsUnitsAlone(t *testing.T) {
	t.Parallel()
	for _, loss := range faultkv.Lossy {
		t.Run(loss.Name, func(t *testing.T) {
			t.Parallel()
			w := faultkv.NewWorld(t)
			c := openedCommitter(t, w)
			w.Put(t, "common", "in the way")
			pending := together(t, w, c, leanBatch(w), loss.Faults...)
			for i, p := range pending {
				r := mustWait(t, p)
				if free := i == len(pending)-1; r.Succeeded != free {
					t.Errorf("unit %d: got succeeded %v, want %v", i, r.Succeeded, free)
				} else if kv := r.Get(0); !free && (kv == nil || string(kv.Value) != "in the way") {
					t.Errorf("unit %d: got %v for what is in its way", i, kv)
				}
			}
			faultkv.WantVersions(t, w, map[string]int64{"u0": 0, "u9": 0, "free": 1})
			lateChangesNothing(t, w, c)
		})
	}
}

// A lean batch costs one request, and one more, plain, where a common compare does
// not hold.
func TestLeanBatchIsSentAgainOnlyWhereACommonCompareFails(t *testing.T) {
	for _, tt := range []struct {
		name     string
		inTheWay bool
		want     int
	}{{"it holds", false, 1}, {"it does not", true, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			w := faultkv.NewWorld(t)
			c := openedCommitter(t, w)
			if tt.inTheWay {
				w.Put(t, "common", "1")
			}
			for _, p := range together(t, w, c, leanBatch(w)) {
				mustWait(t, p)
			}
			if got := w.Sent() - 1; got != tt.want { // one is the gate's
				t.Errorf("requests: got %d, want %d", got, tt.want)
			}
		})
	}
}

// The lean original arrives after its repeat was refused, when what was in the way is
// gone, and before the plain batch does: that one finds out.
func TestLateLeanOriginalIsFoundByThePlainBatch(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Put(t, "common", "1")
	gate := make(chan struct{})
	pending := together(t, w, c, leanBatch(w), faultkv.Fate{Late: true}, faultkv.Fate{}, faultkv.Fate{Hold: gate})
	w.WaitSent(t, 4) // the gate, the original, its repeat, the plain batch
	if _, err := w.Client.Delete(faultkv.Within(t), w.Data+"common"); err != nil {
		t.Fatal(err)
	}
	if got := w.Arrive(t); got != 1 {
		t.Errorf("originals that took effect: got %d, want 1", got)
	}
	close(gate)
	for i, p := range pending {
		if r := mustWait(t, p); !r.Succeeded {
			t.Errorf("unit %d was applied, its caller is told that it was refused", i)
		}
	}
	faultkv.WantVersions(t, w, map[string]int64{"u0": 1, "u9": 1, "free": 1})
}

// A refusal is certain even when nobody can read any more what was in the way.
func TestRefusedByALeanBatchWithoutAReason(t *testing.T) {
	w := faultkv.NewWorld(t)
	c := openedCommitter(t, w)
	w.Put(t, "u3", "1")
	w.ReadPlan = func(int) error { return rpctypes.ErrPermissionDenied }
	pending := together(t, w, c, leanBatch(w))
	for i, p := range pending {
		r, err := p.Wait(faultkv.Within(t))
		if i == 3 {
			faultkv.WantErr(t, err, fault.ErrRefused)
			faultkv.WantErr(t, err, rpctypes.ErrPermissionDenied)
		} else if err != nil || !r.Succeeded {
			t.Errorf("unit %d: got %v, %v, want applied", i, r.Succeeded, err)
		}
	}
	faultkv.WantVersions(t, w, map[string]int64{"u3": 1, "u4": 1})
}

// What refused a unit is read as it is now where its revision is compacted already.
func TestRefusedByALeanBatchBehindACompaction(t *testing.T) {
	t.Parallel()
	w := faultkv.WorldOn(t, etcdtest.New(t, etcdtest.Config{}).Client(t))
	c := openedCommitter(t, w)
	w.Put(t, "u3", "in the way")
	compact := func() {
		if _, err := w.Client.Compact(faultkv.Within(t), w.Put(t, "later", "")); err != nil {
			t.Error(err)
		}
	}
	txns := leanBatch(w)
	txns[3].Else = []clientv3.Op{clientv3.OpGet(w.Data + "u3")}
	pending := together(t, w, c, txns, faultkv.Fate{Then: compact})
	for i, p := range pending {
		if r := mustWait(t, p); r.Succeeded == (i == 3) {
			t.Errorf("unit %d: got succeeded %v", i, r.Succeeded)
		} else if kv := r.Get(0); i == 3 && (kv == nil || string(kv.Value) != "in the way") {
			t.Errorf("unit %d: got %v for what is in its way", i, kv)
		}
	}
}

// fewAtATime is a link that cannot carry many reads at once.
type fewAtATime struct{ etcdkv.Backend }

func (b fewAtATime) Txn(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	if len(t.If) == 0 && len(t.Then) > 7 {
		return nil, context.DeadlineExceeded
	}
	return b.Backend.Txn(ctx, t)
}

// narrowWorld has a client that takes no larger answers.
func narrowWorld(t *testing.T, limit int) *faultkv.World {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: etcdtest.Shared(t).Endpoints(), MaxCallSendMsgSize: limit / 2, MaxCallRecvMsgSize: limit, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return faultkv.WorldOn(t, c)
}

// What units have read, or would have, may be too much for one answer, though each
// alone is not: it comes in parts.
func TestLargeAnswersAreReadInParts(t *testing.T) {
	const limit, value, units = 256 << 10, 20 << 10, 40
	small := func(t *testing.T) *faultkv.World { return narrowWorld(t, limit) }
	slow := func(t *testing.T) *faultkv.World {
		w := faultkv.NewWorld(t)
		w.Backend.Backend = fewAtATime{w.Backend.Backend}
		return w
	}
	for _, tt := range []struct {
		name      string
		world     func(*testing.T) *faultkv.World
		succeeded bool
		faults    []faultkv.Fate
	}{
		{"too large, read by those that succeeded", small, true, nil},
		{"too large, read by those that were refused", small, false, nil},
		{"too slow, read by those that succeeded", slow, true, []faultkv.Fate{{Lose: faultkv.ErrLost}}},
		{"too slow, read by those that were refused", slow, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.world(t)
			c := openedCommitter(t, w)
			var txns []etcdkv.Txn
			for i := range units {
				name := fmt.Sprintf("p%d", i)
				w.Put(t, name, strings.Repeat("x", value))
				get := clientv3.OpGet(w.Data + name)
				txn := etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+name+"-job", "1"), get}}
				if !tt.succeeded {
					txn = etcdkv.Txn{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(w.Data+name), "=", 0)}, Then: txn.Then[:1], Else: []clientv3.Op{get}}
				}
				txns = append(txns, txn)
			}
			for i, p := range together(t, w, c, txns, tt.faults...) {
				r := mustWait(t, p)
				kv := r.Get(0)
				if tt.succeeded {
					kv = r.Get(1)
				}
				if r.Succeeded != tt.succeeded || kv == nil || len(kv.Value) != value {
					t.Errorf("unit %d: got succeeded %v, read %v", i, r.Succeeded, kv != nil)
				}
			}
		})
	}
}

// One value that is larger than any answer may be is no reason to ask for ever.
func TestAnAnswerThatNeverFitsEndsTheReading(t *testing.T) {
	w := narrowWorld(t, 16<<10)
	c := openedCommitter(t, w)
	if _, err := etcdtest.Shared(t).Client(t).Put(faultkv.Within(t), w.Data+"large", strings.Repeat("x", 32<<10)); err != nil {
		t.Fatal(err)
	}
	read := etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(w.Data+"new", "1"), clientv3.OpGet(w.Data + "large")}}
	_, err := c.Do(faultkv.Within(t), read)
	faultkv.WantErr(t, err, fault.ErrUnknown)
	faultkv.WantVersions(t, w, map[string]int64{"new": 1})
}
