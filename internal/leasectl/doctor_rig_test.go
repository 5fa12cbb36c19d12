package leasectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

// doctorRig is one root of an etcd in which things are broken, and leasectl beside it.
type doctorRig struct {
	*testing.T
	client    *clientv3.Client
	keys      keyspace.Keyspace
	endpoints string
	env       map[string]string
}

func newDoctorRig(t *testing.T, endpoints []string) *doctorRig {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	keys, err := keyspace.New("/" + strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "/")
	if err != nil {
		t.Fatal(err)
	}
	return &doctorRig{T: t, client: client, keys: keys, endpoints: strings.Join(endpoints, ","), env: map[string]string{"LEASECTL_DIAL_TIMEOUT": "1m"}}
}

// leasectl runs one command in this process.
func (r *doctorRig) leasectl(args ...string) (stdout, stderr string, code int) {
	r.Helper()
	return r.leasectlAt(r.keys.Root(), args...)
}

func (r *doctorRig) leasectlAt(root string, args ...string) (stdout, stderr string, code int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), clitest.Patience)
	defer cancel()
	for {
		var out, errOut bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errOut, Getenv: func(name string) string { return r.env[name] }}
		code = run(ctx, a, newRoot(a, verbs(a)), append(slices.Clone(args), "--endpoints", r.endpoints, "--root", root))
		// doctor gives an endpoint two seconds, in which a busy machine may run nobody.
		if code != exit.Unreachable || !strings.Contains(errOut.String(), "no endpoint answers: no answer in time") || ctx.Err() != nil {
			return out.String(), errOut.String(), code
		}
	}
}

// doctor runs it with a short window, and wants an exit code; -1 takes any.
func (r *doctorRig) doctor(want int, args ...string) string {
	r.Helper()
	out, errOut, code := r.leasectl(append([]string{"doctor", "--window", "100ms"}, args...)...)
	if want >= 0 && code != want {
		r.Fatalf("leasectl doctor %q: exit code %d, want %d\n%s%s", args, code, want, out, errOut)
	}
	return out
}

// report runs doctor -o json.
func (r *doctorRig) report(want int, args ...string) doctor.Report {
	r.Helper()
	var rep doctor.Report
	out := r.doctor(want, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		r.Fatalf("%v in %s", err, out)
	}
	return rep
}

func (r *doctorRig) put(key, value string, opts ...clientv3.OpOption) int64 {
	r.Helper()
	resp, err := r.client.Put(r.Context(), key, value, opts...)
	if err != nil {
		r.Fatal(err)
	}
	return resp.Header.Revision
}

func (r *doctorRig) delete(key string) {
	r.Helper()
	if _, err := r.client.Delete(r.Context(), key); err != nil {
		r.Fatal(err)
	}
}

func (r *doctorRig) exists(key string) bool {
	r.Helper()
	resp, err := r.client.Get(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return len(resp.Kvs) == 1
}

func (r *doctorRig) valueAt(key string) string {
	r.Helper()
	resp, err := r.client.Get(r.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		r.Fatalf("read %s: %v, %v", key, resp, err)
	}
	return string(resp.Kvs[0].Value)
}

func (r *doctorRig) queue(name string) keyspace.QueueKeys { return r.keys.Queue(name) }

// record is a job's record as it lies in etcd, with more fields.
func record(id, more string) string {
	quoted, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"w":"8888888888888888","v":1,"id":%s,"born":"b","enqueued_at":%q%s}`, quoted, time.Now().UTC().Format(time.RFC3339Nano), more)
}

// session puts a session on a lease of its own, as a process that lives would have it.
func (r *doctorRig) session(sid, more string) (clientv3.LeaseID, int64) {
	r.Helper()
	lease := r.grant(sid, 600)
	return lease, r.put(r.keys.Session(sid), `{"w":"8888888888888888"`+more+`}`, clientv3.WithLease(lease))
}

// grant grants the lease that a session's id names, unless another test beside this one has.
func (r *doctorRig) grant(sid string, ttl int64) clientv3.LeaseID {
	r.Helper()
	id, err := strconv.ParseInt(sid[len(sid)-16:], 16, 64)
	if err != nil {
		r.Fatal(err)
	}
	_, err = clientv3.RetryLeaseClient(r.client).LeaseGrant(r.Context(), &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
		r.Fatal(err)
	}
	return clientv3.LeaseID(id)
}

// worker registers a session that lives.
func (r *doctorRig) worker(queue, sid string) {
	r.Helper()
	lease, _ := r.session(sid, "")
	r.put(r.queue(queue).Worker(sid), `{"w":"8888888888888888","concurrency":4}`, clientv3.WithLease(lease))
}

func (r *doctorRig) open(queue string) *workqueue.Queue {
	r.Helper()
	q, err := workqueue.Open(r.Context(), r.client, workqueue.Config{Queue: queue, Root: r.keys.Root(), MaxPayload: 900 << 10})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = q.Close() })
	return q
}

func (r *doctorRig) openSession(identity string) *coord.Session {
	r.Helper()
	s, err := coord.OpenSession(r.Context(), r.client, coord.SessionConfig{Root: r.keys.Root(), Identity: identity, TTL: time.Minute})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = s.Close(context.WithoutCancel(r.Context())) })
	return s
}

func (r *doctorRig) job(queue, id string) *workqueue.Job {
	r.Helper()
	j, err := r.open(queue).Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return j
}

func (r *doctorRig) cancel(queue, id string) {
	r.Helper()
	if _, err := r.open(queue).Cancel(r.Context(), id, workqueue.By{Actor: "test"}); err != nil {
		r.Fatal(err)
	}
}

// leader is the key of an election's leader.
func (r *doctorRig) leader(name string) string {
	r.Helper()
	store, err := etcdkv.NewStore(r.client, r.keys.Root(), nil)
	if err != nil {
		r.Fatal(err)
	}
	st, err := line.LeadershipState(r.Context(), store, name)
	if err != nil {
		r.Fatal(err)
	}
	return st.Key
}

// nearlyExpired puts a session whose lease is always near its end, as one that renews late.
func (r *doctorRig) nearlyExpired(sid string) {
	r.Helper()
	lease := r.grant(sid, 15)
	r.put(r.keys.Session(sid), `{"w":"8888888888888888"}`, clientv3.WithLease(lease))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		left, err := r.client.TimeToLive(r.Context(), lease)
		if err != nil {
			r.Fatal(err)
		}
		if 3*left.TTL <= left.GrantedTTL {
			return
		}
	}
}

// holdAndWait has one session hold a lock, and another one wait for it.
func (r *doctorRig) holdAndWait(name string) {
	r.Helper()
	if _, err := coord.NewLock(r.openSession("holder"), name).Acquire(r.Context()); err != nil {
		r.Fatal(err)
	}
	heir := coord.NewLock(r.openSession("heir"), name)
	got := make(chan error, 1)
	go func() {
		_, err := heir.Acquire(r.Context())
		got <- err
	}()
	r.Cleanup(func() {
		if err := <-got; err != nil {
			r.Error("the heir:", err)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if st, err := heir.State(r.Context()); err != nil {
			r.Fatal(err)
		} else if len(st.Waiters) == 1 {
			return
		}
	}
}
