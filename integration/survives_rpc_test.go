package integration_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// inspector stands between a client and the network and looks at every request, for
// what a rule forbids.
type inspector struct {
	space keyspace.Keyspace

	mu       sync.Mutex
	seen     map[string]int
	findings []string
}

func (i *inspector) found(format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if line := fmt.Sprintf(format, args...); !slices.Contains(i.findings, line) {
		i.findings = append(i.findings, line)
	}
}

func (i *inspector) saw(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen[name]++
}

func (i *inspector) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if _, ok := ctx.Deadline(); !ok {
				i.found("%s has no deadline", path.Base(method))
			}
			i.request(req)
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			return inspectedStream{s, i}, err
		}),
	}
}

type inspectedStream struct {
	grpc.ClientStream
	i *inspector
}

func (s inspectedStream) SendMsg(m any) error {
	s.i.request(m)
	return s.ClientStream.SendMsg(m)
}

func (i *inspector) request(req any) {
	switch r := req.(type) {
	case *pb.TxnRequest:
		i.saw("txn")
		if !linearizable(r) {
			i.found("a Txn without a write or a linearizable read: %v", r)
		}
		i.txn(r)
	case *pb.RangeRequest:
		i.saw("range")
		i.ranged(r)
	case *pb.PutRequest:
		i.found("a put outside of a Txn: %s", r.Key)
	case *pb.DeleteRangeRequest:
		i.found("a delete outside of a Txn: %s", r.Key)
	}
}

// linearizable tells whether etcd orders a Txn behind all writes before it: one that
// writes is, and one that reads more than a member's own state.
func linearizable(r *pb.TxnRequest) bool {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestTxn:
			if linearizable(o.RequestTxn) {
				return true
			}
		case *pb.RequestOp_RequestRange:
			if !o.RequestRange.Serializable {
				return true
			}
		default:
			return true
		}
	}
	return false
}

func (i *inspector) txn(r *pb.TxnRequest) {
	for _, c := range r.Compare {
		i.saw("compare")
		// etcd reads every key of such a range while it applies the Txn, with all
		// writers waiting: only among those who wait for a lock are they few.
		if len(c.RangeEnd) > 0 && !strings.Contains(string(c.Key), "/waiters/") && !strings.Contains(string(c.Key), "/candidates/") {
			i.found("a compare of the range from %s", c.Key)
		}
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestTxn:
			i.txn(o.RequestTxn)
		case *pb.RequestOp_RequestRange:
			i.ranged(o.RequestRange)
		case *pb.RequestOp_RequestPut:
			i.put(o.RequestPut)
		}
	}
}

func (i *inspector) ranged(r *pb.RangeRequest) {
	if r.Serializable {
		i.found("a serializable read of %s", r.Key)
	}
	if r.SortOrder != pb.RangeRequest_NONE || r.MinModRevision+r.MaxModRevision+r.MinCreateRevision+r.MaxCreateRevision != 0 {
		i.found("a sort or a revision filter over %s", r.Key)
	}
}

// put checks what hangs on a lease: who is alive, and nothing that must outlive him.
func (i *inspector) put(r *pb.PutRequest) {
	p, ok := i.space.Parse(string(r.Key))
	if !ok {
		return
	}
	waiting := strings.Contains(string(r.Key), "/waiters/") || strings.Contains(string(r.Key), "/candidates/")
	leased := r.Lease != 0 && !r.IgnoreLease
	switch p.Kind {
	case "sessions", "workers":
		i.saw(p.Kind)
		if !leased {
			i.found("%s is put without a lease", p.Kind)
		}
	case "locks", "elections", "semaphores":
		i.saw(fmt.Sprintf("%s waiting=%t", p.Kind, waiting))
		if leased != waiting {
			i.found("%s is put with lease %x", r.Key, r.Lease)
		}
	case "jobs", "payloads", "progress", "assigned", "dead":
		i.saw(p.Kind)
		if leased {
			i.found("%s is put on a lease", p.Kind)
		}
	case "done", "refused":
		i.saw(p.Kind)
		if !leased {
			i.found("%s is put without a retention lease", p.Kind)
		}
	}
}

// inspected does everything that the toolkit can do once, and returns what its
// requests were.
func inspected(t *testing.T) *inspector {
	t.Helper()
	t.Parallel()
	root := etcdtest.Root(t)
	space, err := keyspace.New(root)
	mustDo(t, err)
	i := &inspector{space: space, seen: map[string]int{}}
	cl := etcdtest.Shared(t).Client(t, i.options()...)
	useQueue(t, cl, root, "claim")
	useQueue(t, cl, root, "dispatch")
	useLocks(t, cl, root)
	return i
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// useQueue works jobs that end in every way.
func useQueue(t *testing.T, cl *clientv3.Client, root, mode string) {
	by := workqueue.By{Actor: "test"}
	q := open(t, cl, root)
	mustDo(t, q.SetMode(bounded(t), mode, by))
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if err := c.Checkpoint(ctx, []byte("here")); err != nil {
			return nil, err
		}
		switch first := c.Job().Attempt == 1; c.Job().Kind {
		case "fail":
			return nil, workqueue.Permanent(errors.New("no"))
		case "retry":
			if first {
				return nil, workqueue.RetryAfter(time.Millisecond, errors.New("again"))
			}
		case "snooze":
			if first {
				return nil, workqueue.Snooze(time.Millisecond)
			}
		case "cancel":
			return nil, workqueue.Cancel(errors.New("not needed"))
		}
		return []byte("r"), nil
	}), workqueue.WorkerConfig{StandForDispatcher: true, Concurrency: 4, SessionTTL: 20 * time.Second})
	mustDo(t, err)
	ctx, stop := context.WithCancel(bounded(t))
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	kinds := []string{"", "fail", "retry", "snooze", "cancel"}
	for _, kind := range kinds {
		add(t, q, workqueue.Params{ID: mode + kind, Kind: kind, Payload: make([]byte, 4<<10)})
	}
	for _, kind := range kinds {
		_, err := q.Wait(bounded(t), mode+kind)
		mustDo(t, err)
	}
	_, err = q.Requeue(bounded(t), mode+"fail", by)
	mustDo(t, err)
	_, err = q.Wait(bounded(t), mode+"fail")
	mustDo(t, err)
	mustDo(t, q.Pause(bounded(t), by))
	add(t, q, workqueue.Params{ID: mode + "paused"})
	_, err = q.Cancel(bounded(t), mode+"paused", by)
	mustDo(t, err)
	mustDo(t, q.Resume(bounded(t), by))
	for _, err := range q.List(bounded(t), workqueue.Filter{}) {
		mustDo(t, err)
	}
	_, err = admin.Count(bounded(t), q)
	mustDo(t, err)
	_, err = admin.Refusals(bounded(t), q)
	mustDo(t, err)
	stop()
	mustDo(t, <-ran)
}

// useLocks waits for locks, permits and leaderships, and hands them over.
func useLocks(t *testing.T, cl *clientv3.Client, root string) {
	var sessions []*coord.Session
	for range 2 {
		s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root})
		mustDo(t, err)
		defer func() { mustDo(t, s.Close(bounded(t))) }()
		sessions = append(sessions, s)
	}
	for _, claim := range []func(s *coord.Session) (*coord.Hold, error){
		func(s *coord.Session) (*coord.Hold, error) { return coord.NewLock(s, "l").Acquire(bounded(t)) },
		func(s *coord.Session) (*coord.Hold, error) { return coord.NewSemaphore(s, "s", 1).Acquire(bounded(t)) },
	} {
		h, err := claim(sessions[0])
		mustDo(t, err)
		mustDo(t, h.Verify(bounded(t)))
		_, err = h.Commit(bounded(t), clientv3.OpPut("/elsewhere"+root, ""))
		mustDo(t, err)
		second := make(chan error, 1)
		go func() {
			h, err := claim(sessions[1])
			if err == nil {
				err = h.Release(bounded(t))
			}
			second <- err
		}()
		awaitWaiter(t, cl, root)
		mustDo(t, h.Release(bounded(t)))
		mustDo(t, <-second)
	}
	e, err := election.New(cl, election.Config{Name: "e", Root: root})
	mustDo(t, err)
	mustDo(t, e.Run(bounded(t), func(ctx context.Context, term *election.Term) error { return e.Verify(ctx) }))
}

// awaitWaiter blocks until somebody stands in line.
func awaitWaiter(t *testing.T, cl *clientv3.Client, root string) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watch := cl.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for range watch {
		resp, err := cl.Get(ctx, root, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		mustDo(t, err)
		if slices.ContainsFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.Contains(string(kv.Key), "/waiters/") }) {
			return
		}
	}
	t.Fatal("nobody stands in line")
}

// wants reports what broke a rule, and that what the rule is about was there.
func (i *inspector) wants(t *testing.T, rule []string, seen ...string) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range seen {
		if i.seen[name] == 0 {
			t.Errorf("there was no %s; there were %v", name, i.seen)
		}
	}
	for _, f := range i.findings {
		if slices.ContainsFunc(rule, func(part string) bool { return strings.Contains(f, part) }) {
			t.Error(f)
		}
	}
}

// An isolated member answers a Txn that has no linearizable op, from whatever it
// knew: none is ever sent. Nor is a serializable read.
func TestSurvives_07_EveryRequestIsLinearizable(t *testing.T) {
	inspected(t).wants(t, []string{"linearizable", "serializable", "outside of a Txn"}, "txn", "range")
}

// What a lease holds is who is alive, never a job: see 11, which has 10,000 of them.
func TestSurvives_25_EveryPutOfLivenessKeepsItsLease(t *testing.T) {
	inspected(t).wants(t, []string{"lease"}, "sessions", "workers", "locks waiting=true", "locks waiting=false",
		"semaphores waiting=true", "elections waiting=false", "jobs", "payloads", "progress", "assigned", "dead", "done")
}

// What etcd does in time that grows with a queue is not asked of it.
func TestSurvives_41_NoSortsAndNoRangeCompares(t *testing.T) {
	inspected(t).wants(t, []string{"sort", "compare"}, "compare", "range")
}

// A call that etcd never answers ends all the same.
func TestSurvives_52_EveryCallHasADeadline(t *testing.T) {
	inspected(t).wants(t, []string{"deadline"}, "txn", "range")
}

// What the rules forbid is found.
func TestInspectorFinds(t *testing.T) {
	space, err := keyspace.New("/r/")
	mustDo(t, err)
	key, q := []byte("/k"), space.Queue("q")
	nested := func(op *pb.RequestOp) *pb.TxnRequest {
		return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{op}}}}}}
	}
	put := func(key string, lease int64) *pb.TxnRequest {
		return nested(&pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Lease: lease}}})
	}
	for want, req := range map[string]any{
		"without a write":   &pb.TxnRequest{Compare: []*pb.Compare{{Key: key}}},
		"linearizable":      nested(&pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key, Serializable: true}}}),
		"serializable read": &pb.RangeRequest{Key: key, Serializable: true},
		"sort":              &pb.RangeRequest{Key: key, SortOrder: pb.RangeRequest_ASCEND},
		"revision filter":   &pb.RangeRequest{Key: key, MinModRevision: 1},
		"compare of":        &pb.TxnRequest{Compare: []*pb.Compare{{Key: key, RangeEnd: key}}},
		"outside of a Txn":  &pb.PutRequest{Key: key},
		"sessions is put":   put(space.Session("a.0123456789abcdef"), 0),
		"on a lease":        put(q.Job("j"), 7),
		"with lease 7":      put(space.Root()+"locks/l/holder", 7),
		"with lease 0":      put(space.Root()+"locks/l/waiters/a.0123456789abcdef-1", 0),
		"retention lease":   put(q.Done("j"), 0),
	} {
		i := &inspector{space: space, seen: map[string]int{}}
		i.request(req)
		if !slices.ContainsFunc(i.findings, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("%s: found %q", want, i.findings)
		}
	}
}
