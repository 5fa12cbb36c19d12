package leftover

import (
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
	"github.com/leasekit/leasekit/internal/keyspace"
)

// leftoverRaces are what the compares of leftovers are for. A compare that is not
// here fails the test: write down its race.
var leftoverRaces = map[string]string{
	"key mod =":     "somebody wrote the key again meanwhile",
	"key value >":   "history went back, and another record with a smaller nonce has the same revision",
	"key value <":   "history went back, and another record with a larger nonce has the same revision",
	"key lease =":   "somebody keeps the key alive now",
	"job create =":  "somebody enqueued a job of that id meanwhile, which the key belongs to",
	"dead create =": "a job of that id died meanwhile, which the key belongs to",
	"job mod !=":    "the job is claimed by this very assignment",
}

const leftoverSID = "w.0000000000000001"

// leftoverCase is one kind of leftover, and the compares that it must have.
// midNonce is a nonce with others below and above it.
const midNonce = "5123456789abcdef"

type leftoverCase struct {
	name   string
	key    func(keyspace.Keyspace, keyspace.QueueKeys) string
	value  string
	closes []string
	lease  int64 // the key hangs on a lease of that many seconds
}

var leftoverCases = []leftoverCase{
	{"a session", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Session(leftoverSID) }, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a session's record", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Session(leftoverSID) }, `{"w":"` + midNonce + `"}`,
		[]string{"key mod =", "key value >", "key value <", "key lease ="}, 0},
	{"a lane", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Lane(leftoverSID, 0) }, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a registration", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Worker(leftoverSID) }, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a waiter", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.LockKeys("l").Entry(leftoverSID, 1) }, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a candidate", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string {
		return k.ElectionKeys("e").Entry(leftoverSID, 1)
	}, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a done job", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Done("x") }, `{"w":"` + midNonce + `"}`,
		[]string{"key mod =", "key value >", "key value <", "key lease ="}, 0},
	{"a refusal", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Refused("x") }, "{}", []string{"key mod =", "key lease ="}, 0},
	{"a payload", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Payload("x") }, "pay", []string{"key mod =", "job create =", "dead create ="}, 0},
	{"progress", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Progress("x") }, "{}", []string{"key mod =", "job create =", "dead create ="}, 0},
	{"a job of a name that nobody can use", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Job("x\x1b") }, `{"w":"` + midNonce + `"}`,
		[]string{"key mod =", "key value >", "key value <"}, 0},
	{"a lock of a name that nobody can use", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.LockKeys("l\n").Only }, "{}", []string{"key mod ="}, 0},
	{"a session's record, cut behind its head", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Session(leftoverSID) }, `{"w":"` + midNonce + `"`,
		[]string{"key mod =", "key value >", "key value <", "key lease ="}, 0},
	{"an inbox entry", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Assigned(leftoverSID, "x") }, "{}", []string{"key mod =", "job mod !="}, 0},
	{"a session on another lease", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Session(leftoverSID) }, "{}", []string{"key mod =", "key lease ="}, 60},
	{"a registration on another lease", func(_ keyspace.Keyspace, q keyspace.QueueKeys) string { return q.Worker(leftoverSID) }, "{}", []string{"key mod =", "key lease ="}, 60},
	{"a lane on another lease", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.Lane(leftoverSID, 0) }, "{}", []string{"key mod =", "key lease ="}, 60},
	{"a waiter on another lease", func(k keyspace.Keyspace, _ keyspace.QueueKeys) string { return k.LockKeys("l").Entry(leftoverSID, 1) }, "{}", []string{"key mod =", "key lease ="}, 60},
}

// leftoverWorld is a root in which one leftover lies.
type leftoverWorld struct {
	*testing.T
	client *clientv3.Client
	space  keyspace.Keyspace
	q      keyspace.QueueKeys
	key    string
	seen   *mvccpb.KeyValue
}

func newLeftoverWorld(t *testing.T, client *clientv3.Client, tc leftoverCase) *leftoverWorld {
	space, err := keyspace.New(etcdtest.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &leftoverWorld{T: t, client: client, space: space, q: space.Queue("q")}
	w.key = tc.key(space, w.q)
	w.seen = &mvccpb.KeyValue{Key: []byte(w.key), Value: []byte(tc.value)}
	if tc.lease != 0 {
		w.seen.Lease = int64(w.grant(tc.lease))
	}
	w.seen.ModRevision = w.put(clientv3.OpPut(w.key, tc.value, clientv3.WithLease(clientv3.LeaseID(w.seen.Lease))))
	return w
}

func (w *leftoverWorld) grant(ttl int64) clientv3.LeaseID {
	w.Helper()
	granted, err := w.client.Grant(w.Context(), ttl)
	if err != nil {
		w.Fatal(err)
	}
	return granted.ID
}

// put makes all puts at one revision, which it returns.
func (w *leftoverWorld) put(ops ...clientv3.Op) int64 {
	w.Helper()
	resp, err := w.client.Txn(w.Context()).Then(ops...).Commit()
	if err != nil {
		w.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *leftoverWorld) apply(txn etcdkv.Txn) bool {
	w.Helper()
	resp, err := w.client.Txn(w.Context()).If(txn.If...).Then(txn.Then...).Else(txn.Else...).Commit()
	if err != nil {
		w.Fatal(err)
	}
	return resp.Succeeded
}

func (w *leftoverWorld) describe(c clientv3.Cmp) string {
	name := map[string]string{w.key: "key", w.q.Job("x"): "job", w.q.Dead("x"): "dead"}[string(c.KeyBytes())]
	target := strings.ToLower(c.GetCompare().Target.String())
	return name + " " + target + " " + map[pb.Compare_CompareResult]string{
		pb.Compare_EQUAL: "=", pb.Compare_NOT_EQUAL: "!=", pb.Compare_GREATER: ">", pb.Compare_LESS: "<",
	}[c.GetCompare().Result]
}

// spoil makes the world in which only that compare does not hold, and returns the
// Txn as it would be then.
func (w *leftoverWorld) spoil(race string) etcdkv.Txn {
	w.Helper()
	value := string(w.seen.Value)
	switch race {
	case "key mod =":
		w.put(clientv3.OpPut(w.key, value, clientv3.WithLease(clientv3.LeaseID(w.seen.Lease))))
		return w.txn(w.seen)
	case "key value >", "key value <":
		nonce := map[string]string{"key value >": "0000000000000001", "key value <": "fffffffffffffff0"}[race]
		w.seen.ModRevision = w.put(clientv3.OpPut(w.key, strings.Replace(value, midNonce, nonce, 1)))
	case "key lease =":
		w.seen.ModRevision = w.put(clientv3.OpPut(w.key, value, clientv3.WithLease(w.grant(60))))
	case "job create =":
		w.put(clientv3.OpPut(w.q.Job("x"), "{}"))
	case "dead create =":
		w.put(clientv3.OpPut(w.q.Dead("x"), "{}"))
	case "job mod !=":
		w.seen.ModRevision = w.put(clientv3.OpPut(w.key, value), clientv3.OpPut(w.q.Job("x"), "{}"))
	}
	return w.txn(w.seen)
}

func (w *leftoverWorld) txn(kv *mvccpb.KeyValue) etcdkv.Txn {
	w.Helper()
	txn, err := leftoverTxns{w.space}.remove(kv)
	if err != nil {
		w.Fatal(err)
	}
	return txn
}

// Each compare of each deletion closes a race: in its world the Txn is refused, and
// applied without it.
func TestEveryCompareOfALeftoverClosesARace(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	for _, tc := range leftoverCases {
		t.Run(tc.name, func(t *testing.T) {
			w := newLeftoverWorld(t, client, tc)
			txn := w.txn(w.seen)
			var closed []string
			for _, c := range txn.If {
				closed = append(closed, w.describe(c))
			}
			if !slices.Equal(closed, tc.closes) {
				t.Errorf("closes %q, must close %q", closed, tc.closes)
			}
			if !w.apply(txn) || w.apply(txn) {
				t.Error("not applied exactly once")
			}
			for i, race := range closed {
				t.Run(race, func(t *testing.T) {
					if leftoverRaces[race] == "" {
						t.Fatalf("nobody wrote down which race the compare %q closes", race)
					}
					w := newLeftoverWorld(t, client, tc)
					txn := w.spoil(race)
					if w.apply(txn) {
						t.Fatalf("applied although %s", leftoverRaces[race])
					}
					txn.If = slices.Delete(slices.Clone(txn.If), i, i+1)
					if !w.apply(txn) {
						t.Error("refused without the compare too: something else closes the race already")
					}
				})
			}
		})
	}
}

// What is no leftover is not deleted, whatever was seen.
func TestWhatIsNoLeftoverStays(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	s, err := etcdkv.NewStore(client, etcdtest.Root(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := s.Keys().Queue("q")
	var seen []*mvccpb.KeyValue
	for _, key := range []string{s.Keys().Meta(), q.Config(), q.Job("x"), q.Dead("x"), s.Keys().LockKeys("l").Only, s.Keys().Root() + "foreign", "/elsewhere", q.Payload("gone")} {
		resp, err := client.Put(t.Context(), key, "{}")
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, &mvccpb.KeyValue{Key: []byte(key), ModRevision: resp.Header.Revision})
	}
	seen = append(seen, &mvccpb.KeyValue{Key: []byte(q.Payload("never seen"))})
	for i, err := range Delete(t.Context(), s, seen) {
		leftover := string(seen[i].Key) == q.Payload("gone")
		if leftover != (err == nil) || !leftover && !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: %v", seen[i].Key, err)
		}
	}
	// Seen earlier, changed since.
	resp, err := client.Put(t.Context(), q.Payload("gone"), "{}")
	if err != nil {
		t.Fatal(err)
	}
	stale := &mvccpb.KeyValue{Key: []byte(q.Payload("gone")), ModRevision: resp.Header.Revision - 1}
	if errs := Delete(t.Context(), s, []*mvccpb.KeyValue{stale}); !errors.Is(errs[0], coord.ErrRefused) {
		t.Errorf("deleted what had changed: %v", errs)
	}
}
