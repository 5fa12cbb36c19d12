package line

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// claimRaces are what the compares of claims are for: each is the world in which
// everything else is as the Txn wants it, and only that compare is not. A compare
// that is not here fails the test: write down its race.
var claimRaces = map[string]string{
	"slot mod =":       "somebody wrote the slot meanwhile, with a head that is the same by chance",
	"slot value >":     "history went back, and another record with a smaller nonce has the same revision",
	"slot value <":     "history went back, and another record with a larger nonce has the same revision",
	"other slot mod =": "another permit was released meanwhile, to nobody since nobody waited",
	"me create =":      "the session of whoever claims or waits has ended on the server",
	"owner create !=":  "the owner lives: its session only looked gone",
	"heir create =":    "the session of the waiter who is to get the claim has ended",
	"entry mod =":      "our waiting entry is gone: we withdrew, or the claim was handed to us",
	"heir entry mod =": "the waiter who is to get the claim withdrew, or it is another entry",
	"entry create =":   "there is such an entry already",
	"waiters create =": "somebody began to wait after we looked",
}

const midClaim = "8888888888888888"

// claimWorld is one name under a root of its own, made as a Txn wants to find it.
type claimWorld struct {
	t      *testing.T
	client *clientv3.Client
	Txns
	me, owner, heir Claimant
	lease           clientv3.LeaseID
	names           map[string]string // key -> its name in claimRaces
}

func newClaimWorld(t *testing.T, client *clientv3.Client) *claimWorld {
	space, err := keyspace.New(etcdtest.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &claimWorld{t: t, client: client, Txns: Txns{Space: space, Keys: space.SemaphoreKeys("s", 2)}}
	w.names = map[string]string{w.Keys.Slot(0): "slot", w.Keys.Slot(1): "other slot", w.entry(): "entry", w.heirEntry(): "heir entry", w.Keys.Wait: "waiters"}
	for name, c := range map[string]*Claimant{"me": &w.me, "owner": &w.owner, "heir": &w.heir} {
		c.Session, c.Nonce = name+".0000000000000001", keyspace.NewNonce()
		c.Rev = w.put(space.Session(c.Session), "{}")
		w.names[space.Session(c.Session)] = name
	}
	granted, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	w.lease = granted.ID
	return w
}

func (w *claimWorld) entry() string     { return w.Keys.Entry("me.0000000000000001", 1) }
func (w *claimWorld) heirEntry() string { return w.Keys.Entry("heir.0000000000000001", 1) }

func (w *claimWorld) put(key, value string, opts ...clientv3.OpOption) int64 {
	w.t.Helper()
	resp, err := w.client.Put(w.t.Context(), key, value, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *claimWorld) delete(key string) {
	w.t.Helper()
	if _, err := w.client.Delete(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

// claimed puts slot 0 as a claim of the owner's.
func (w *claimWorld) claimed() etcdkv.Fence {
	key := w.Keys.Slot(0)
	rev := w.put(key, record(holderRecord{Nonce: midClaim, Owner: w.owner.Session, OwnerRev: w.owner.Rev}))
	return etcdkv.Fence{Key: key, Token: rev, Nonce: midClaim}
}

// waits puts the entry of me or the heir.
func (w *claimWorld) waits(key string, who Claimant) int64 {
	return w.put(key, record(waiterRecord{Nonce: keyspace.NewNonce(), Session: who.Session, SessionRev: who.Rev, Claim: who.Nonce}), clientv3.WithLease(w.lease))
}

// view reads the world as an acquisition would, without owners.
func (w *claimWorld) view() View {
	w.t.Helper()
	resp, err := w.client.Get(w.t.Context(), w.Keys.Root, clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.HasPrefix(string(kv.Key), w.Keys.Wait) })
	if i < 0 {
		i = len(resp.Kvs)
	}
	return viewOf(w.Keys, resp.Kvs[:i], resp.Kvs[i:], resp.Header.Revision)
}

// claimCase is one Txn in its own world.
type claimCase struct {
	name, builder string
	build         func(w *claimWorld) etcdkv.Txn
	closes        []string
	left          []string // what is there afterwards
}

var claimCases = []claimCase{
	{"take an absent slot", "take", func(w *claimWorld) etcdkv.Txn {
		return w.Take(w.view().Slots[0], w.me, "", 0, time.Now())
	}, []string{"slot mod =", "me create ="}, []string{"slot me"}},
	{"take a free slot", "take", func(w *claimWorld) etcdkv.Txn {
		w.put(w.Keys.Slot(0), record(holderRecord{Nonce: midClaim}))
		return w.Take(w.view().Slots[0], w.me, "", 0, time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <", "me create ="}, []string{"slot me"}},
	{"take from a dead owner", "take", func(w *claimWorld) etcdkv.Txn {
		w.claimed()
		return w.Take(w.view().Slots[0], w.me, "", 0, time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <", "me create =", livingOwner}, []string{"slot me"}},
	{"take from a dead owner, after waiting", "take", func(w *claimWorld) etcdkv.Txn {
		w.claimed()
		rev := w.waits(w.entry(), w.me)
		return w.Take(w.view().Slots[0], w.me, w.entry(), rev, time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <", "me create =", livingOwner, "entry mod ="}, []string{"slot me"}},
	{"take what nobody can read", "take", func(w *claimWorld) etcdkv.Txn {
		w.put(w.Keys.Slot(0), "junk")
		return w.Take(w.view().Slots[0], w.me, "", 0, time.Now())
	}, []string{"slot mod =", "me create ="}, []string{"slot me"}},
	{"enqueue", "enqueue", func(w *claimWorld) etcdkv.Txn {
		w.claimed()
		w.put(w.Keys.Slot(1), record(holderRecord{Nonce: midClaim, Owner: w.heir.Session, OwnerRev: w.heir.Rev}))
		return w.Enqueue(w.view(), w.me, w.entry(), w.lease, time.Now())
	}, []string{"entry create =", "me create =", "slot mod =", "other slot mod ="}, []string{"slot owner", "other slot heir", "entry me"}},
	{"release to the first in line", "release", func(w *claimWorld) etcdkv.Txn {
		f := w.claimed()
		w.waits(w.heirEntry(), w.heir)
		w.waits(w.entry(), w.me)
		return w.released(f)
	}, []string{"slot mod =", "slot value >", "slot value <", "heir create =", "heir entry mod ="}, []string{"slot heir", "entry me"}},
	{"release to nobody", "release", func(w *claimWorld) etcdkv.Txn {
		return w.released(w.claimed())
	}, []string{"slot mod =", "slot value >", "slot value <", "waiters create ="}, nil},
	{"release among foreign keys", "release", func(w *claimWorld) etcdkv.Txn {
		f := w.claimed()
		w.put(w.Keys.Wait+"foreign", "junk")
		return w.released(f)
	}, []string{"slot mod =", "slot value >", "slot value <"}, []string{"slot -", "waiters/foreign"}},
	{"transfer", "transfer", func(w *claimWorld) etcdkv.Txn {
		f := w.claimed()
		w.waits(w.entry(), w.me)
		w.waits(w.heirEntry(), w.heir)
		return w.Transfer(f, w.view().Entries[1], time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <", "heir create =", "heir entry mod ="}, []string{"slot heir", "entry me"}},
	{"withdraw", "withdraw", func(w *claimWorld) etcdkv.Txn {
		w.claimed()
		return w.Withdraw(w.entry(), w.waits(w.entry(), w.me))
	}, []string{"entry mod ="}, []string{"slot owner"}},
	{"take by force for a waiter", "force", func(w *claimWorld) etcdkv.Txn {
		f := w.claimed()
		w.waits(w.heirEntry(), w.heir)
		return w.force(f, w.view().Entries[0], holderRecord{By: "ana", Reason: "stuck"}, time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <", "heir create =", "heir entry mod ="}, []string{"slot heir"}},
	{"free by force", "force", func(w *claimWorld) etcdkv.Txn {
		return w.force(w.claimed(), Entry{}, holderRecord{By: "ana"}, time.Now())
	}, []string{"slot mod =", "slot value >", "slot value <"}, []string{"slot -"}},
}

const livingOwner = "owner create !="

// make builds the Txn, and ends the owner where the case is about a dead one.
func (w *claimWorld) make(tc claimCase, race string) etcdkv.Txn {
	txn := tc.build(w)
	if slices.Contains(tc.closes, livingOwner) && race != livingOwner {
		w.delete(w.Space.Session(w.owner.Session))
	}
	return txn
}

// describe names a compare as claimRaces does.
func (w *claimWorld) describe(c clientv3.Cmp) string {
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
func (w *claimWorld) spoil(txn etcdkv.Txn, i int) etcdkv.Txn {
	w.t.Helper()
	c := txn.If[i].GetCompare()
	key := string(c.Key)
	resp, err := w.client.Get(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	value := ""
	if len(resp.Kvs) == 1 {
		value = string(resp.Kvs[0].Value)
	}
	switch {
	case len(c.RangeEnd) > 0:
		w.waits(w.heirEntry(), w.heir)
	case c.Target == pb.Compare_MOD:
		w.put(key, cmp.Or(value, "{}"))
	case c.Target == pb.Compare_CREATE && value == "":
		w.put(key, "{}")
	case c.Target == pb.Compare_CREATE && c.Result == pb.Compare_EQUAL:
		w.delete(key)
	case c.Target == pb.Compare_VALUE:
		nonce := "0000000000000001"
		if c.Result == pb.Compare_LESS {
			nonce = "fffffffffffffff0"
		}
		again := w.put(key, strings.Replace(value, midClaim, nonce, 1))
		txn.If = slices.Clone(txn.If)
		for k, other := range txn.If {
			if string(other.KeyBytes()) == key && other.GetCompare().Target == pb.Compare_MOD {
				txn.If[k] = clientv3.Compare(clientv3.ModRevision(key), "=", again)
			}
		}
	}
	return txn
}

func (w *claimWorld) apply(txn etcdkv.Txn) *clientv3.TxnResponse {
	w.t.Helper()
	resp, err := w.client.Txn(w.t.Context()).If(txn.If...).Then(txn.Then...).Else(txn.Else...).Commit()
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// holding tells which compares hold.
func (w *claimWorld) holding(txn etcdkv.Txn) (held []bool) {
	w.t.Helper()
	get := []clientv3.Op{clientv3.OpGet("x")}
	for _, c := range txn.If {
		held = append(held, w.apply(etcdkv.Txn{If: []clientv3.Cmp{c}, Then: get, Else: get}).Succeeded)
	}
	return held
}

// contents lists who holds and who waits, and what else there is.
func (w *claimWorld) contents() (found []string) {
	w.t.Helper()
	resp, err := w.client.Get(w.t.Context(), w.Keys.Root, clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	v := w.view()
	for _, kv := range resp.Kvs {
		name := cmp.Or(w.names[string(kv.Key)], strings.TrimPrefix(string(kv.Key), w.Keys.Root))
		for _, s := range v.Slots {
			if s.Key == string(kv.Key) {
				name += " " + cmp.Or(w.names[w.Space.Session(s.Owner)], "-")
				if kv.Lease != 0 {
					w.t.Errorf("the claim %s has a lease: it would die with its owner, and its fence with it", kv.Key)
				}
			}
		}
		for _, e := range v.Entries {
			if e.Key == string(kv.Key) {
				name += " " + w.names[w.Space.Session(e.Session)]
			}
		}
		found = append(found, name)
	}
	return found
}

// Each compare of each Txn closes a race: in its world, with all others as they
// should be, the whole Txn is refused; without it, it is applied.
func TestEveryCompareOfEveryClaimTxnClosesARace(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	for _, tc := range claimCases {
		t.Run(tc.name, func(t *testing.T) {
			w := newClaimWorld(t, client)
			txn := w.make(tc, "")
			if held := w.holding(txn); slices.Contains(held, false) {
				t.Fatalf("not every compare holds to begin with: %v", held)
			}
			if !w.apply(txn).Succeeded {
				t.Fatal("refused in its own world")
			}
			if got := w.contents(); !slices.Equal(got, tc.left) {
				t.Errorf("leaves %q, want %q", got, tc.left)
			}
			if w.apply(txn).Succeeded {
				t.Error("applied a second time: a repeat would be no repeat")
			}
			var closed []string
			for _, c := range txn.If {
				closed = append(closed, w.describe(c))
			}
			if !slices.Equal(closed, tc.closes) {
				t.Errorf("closes %q, must close %q", closed, tc.closes)
			}
			for i, race := range closed {
				t.Run(race, func(t *testing.T) { checkClaimRace(newClaimWorld(t, client), tc, i, race) })
			}
		})
	}
}

// checkClaimRace plays the race that compare i of the case closes.
func checkClaimRace(w *claimWorld, tc claimCase, i int, race string) {
	t := w.t
	if claimRaces[race] == "" {
		t.Fatalf("nobody wrote down which race the compare %q closes", race)
	}
	txn := w.make(tc, race)
	if race != livingOwner {
		txn = w.spoil(txn, i)
	}
	for k, held := range w.holding(txn) {
		if held != (k != i) {
			t.Fatalf("%s: compare %d (%s) holds: %v", claimRaces[race], k, w.describe(txn.If[k]), held)
		}
	}
	before := w.contents()
	resp := w.apply(txn)
	if after := w.contents(); resp.Succeeded || !slices.Equal(before, after) {
		t.Errorf("applied although %s: %q became %q", claimRaces[race], before, after)
	}
	if len(resp.Responses) == 0 {
		t.Error("nobody is told what was there instead")
	}
	txn.If = slices.Delete(slices.Clone(txn.If), i, i+1)
	if !w.apply(txn).Succeeded {
		t.Error("refused without the compare too: something else closes the race already")
	}
}

// Every method of Txns that returns a Txn is in the table.
func TestEveryClaimTxnIsInTheTable(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range claimCases {
		covered[tc.builder] = true
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Type.Results == nil {
				continue
			}
			recv, _ := f.Recv.List[0].Type.(*ast.Ident)
			result, _ := f.Type.Results.List[0].Type.(*ast.SelectorExpr)
			if recv != nil && result != nil && recv.Name == "Txns" && result.Sel.Name == "Txn" {
				found++
				if !covered[strings.ToLower(f.Name.Name)] {
					t.Errorf("%s: Txns.%s is in no case: nothing shows what its compares are for", name, f.Name.Name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no builder of Txns: the test looks in the wrong place")
	}
}

// released is the Txn that gives a claim up as things are.
func (w *claimWorld) released(f etcdkv.Fence) etcdkv.Txn {
	txn, _ := w.Release(f, w.view(), time.Now())
	return txn
}
