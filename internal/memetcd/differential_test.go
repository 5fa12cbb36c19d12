package memetcd_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/memetcd"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the random programs; 0 draws one")
	steps = flag.Int("steps", 3000, "requests of the random programs in all")
)

// perProgram is how many requests meet the same keys and leases.
const perProgram = 500

// side is one of the two stores that run the same program.
type side interface {
	// do runs a request and prints the answer; watch prints the events from rev on.
	do(t *testing.T, cmps []clientv3.Cmp, then, els []clientv3.Op) string
	op(t *testing.T, op clientv3.Op) string
	grant(t *testing.T, id clientv3.LeaseID) string
	revoke(t *testing.T, id clientv3.LeaseID) string
	alive(t *testing.T, id clientv3.LeaseID) bool
	compact(t *testing.T, rev int64) string
	watch(t *testing.T, root string, from int64) string
}

// The same random programs on a real server and in memory get the same answers, to
// the last revision.
func TestSameAnswersAsARealServer(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	client := etcdtest.Shared(t).Client(t)
	dice := rand.New(rand.NewPCG(*seed, 1))
	mem := &memory{}
	for range *steps / perProgram {
		root := etcdtest.Root(t)
		first, err := client.Get(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		server := &real{client: client, rev0: first.Header.Revision - mem.s.Rev()}
		p := &program{Rand: dice, root: root}
		for i := range perProgram {
			p.rev = mem.s.Rev()
			what, run := p.step(i)
			// Both draw their request from the same dice.
			s := dice.Uint64()
			draw := func(rev0 int64, to side) string {
				q := &program{Rand: rand.New(rand.NewPCG(s, 2)), root: p.root, rev: p.rev}
				return run(q, rev0, to)
			}
			got, want := draw(0, mem), draw(server.rev0, server)
			if got != want {
				t.Fatalf("-seed %d, step %d: %s\nmemory: %s\nserver: %s", *seed, i, what, got, want)
			}
		}
		for i := range leasesOfProgram {
			id := clientv3.LeaseID(7000 + i)
			if got, want := mem.revoke(t, id), server.revoke(t, id); got != want {
				t.Fatalf("-seed %d: revoke %d: memory %s, server %s", *seed, id, got, want)
			}
		}
		mem.put(t, root+"end")
		server.put(t, root+"end")
		for _, from := range []int64{mem.s.Compacted() + 1, mem.s.Compacted() - 1} {
			if got, want := mem.watch(t, root, max(1, from)), server.watch(t, root, max(1, from)+server.rev0); got != want {
				t.Fatalf("-seed %d: events from %d:\nmemory: %s\nserver: %s", *seed, from, got, want)
			}
		}
	}
}

// step draws what kind of request is next.
func (p *program) step(i int) (what string, run func(q *program, rev0 int64, to side) string) {
	switch n := p.IntN(100); {
	case n < 60:
		return "txn", func(q *program, rev0 int64, to side) string { return q.sendTxn(rev0, to) }
	case n < 70:
		return "get", func(q *program, rev0 int64, to side) string { return to.op(nil, q.get(rev0)) }
	case n < 78:
		return "put", func(q *program, _ int64, to side) string { return to.op(nil, q.put()) }
	case n < 81:
		return "delete", func(q *program, _ int64, to side) string { return to.op(nil, q.delete()) }
	case n < 90:
		return "grant", func(q *program, _ int64, to side) string { return to.grant(nil, q.leaseID()) }
	case n < 95:
		return "revoke", func(q *program, _ int64, to side) string { return to.revoke(nil, q.leaseID()) }
	case n < 98:
		return "keepalive", func(q *program, _ int64, to side) string { return fmt.Sprint(to.alive(nil, q.leaseID())) }
	}
	return "compact", func(q *program, rev0 int64, to side) string {
		return to.compact(nil, rev0+max(1, q.rev-int64(q.IntN(20))))
	}
}

func (p *program) sendTxn(rev0 int64, to side) string {
	cmps, then, els := p.txn(rev0, 2)
	return to.do(nil, cmps, then, els)
}

// answer prints the answer to a request, or the kind of its error.
func (w *printed) answer(r clientv3.OpResponse, err error) string {
	if err != nil {
		var e rpctypes.EtcdError
		if !errors.As(rpctypes.Error(err), &e) {
			return "error: " + err.Error()
		}
		return "error: " + e.Error()
	}
	switch {
	case r.Txn() != nil:
		w.f("@%d ", w.rev(r.Txn().Header.Revision))
		w.txn((*pb.TxnResponse)(r.Txn()))
	case r.Get() != nil:
		w.f("@%d ", w.rev(r.Get().Header.Revision))
		w.found((*pb.RangeResponse)(r.Get()))
	case r.Put() != nil:
		w.f("@%d put ", w.rev(r.Put().Header.Revision))
		w.kv(r.Put().PrevKv)
	case r.Del() != nil:
		w.f("@%d ", w.rev(r.Del().Header.Revision))
		w.deleted((*pb.DeleteRangeResponse)(r.Del()))
	}
	return string(w.out)
}

func (w *printed) kv(kv *mvccpb.KeyValue) {
	if kv != nil {
		w.f(" %s=%s created %d modified %d version %d lease %d", kv.Key, kv.Value, w.rev(kv.CreateRevision), w.rev(kv.ModRevision), kv.Version, kv.Lease)
	}
}

func (w *printed) events(events []*mvccpb.Event) {
	for _, ev := range events {
		w.f("\n  %s", ev.Type)
		w.kv(ev.Kv)
	}
}

// memory is the side in memory.
type memory struct{ s memetcd.Store }

func (m *memory) do(_ *testing.T, cmps []clientv3.Cmp, then, els []clientv3.Op) string {
	r, err := m.s.Commit(cmps, then, els)
	return (&printed{}).answer(r.OpResponse(), err)
}

func (m *memory) op(_ *testing.T, op clientv3.Op) string {
	r, err := m.s.KV().Do(context.Background(), op)
	return (&printed{}).answer(r, err)
}

func (m *memory) put(t *testing.T, key string) {
	t.Helper()
	if _, err := m.s.KV().Put(t.Context(), key, ""); err != nil {
		t.Fatal(err)
	}
}

func (m *memory) grant(_ *testing.T, id clientv3.LeaseID) string {
	return (&printed{}).answer(clientv3.OpResponse{}, m.s.Grant(int64(id), 3600))
}

func (m *memory) revoke(_ *testing.T, id clientv3.LeaseID) string {
	return (&printed{}).answer(clientv3.OpResponse{}, m.s.Revoke(int64(id)))
}

func (m *memory) alive(_ *testing.T, id clientv3.LeaseID) bool { return m.s.Leased(int64(id)) }

func (m *memory) compact(_ *testing.T, rev int64) string {
	return (&printed{}).answer(clientv3.OpResponse{}, m.s.Compact(rev))
}

func (m *memory) watch(_ *testing.T, root string, from int64) string {
	w := &printed{}
	events, err := m.s.Events([]byte(root), []byte(clientv3.GetPrefixRangeEnd(root)), from)
	if err != nil {
		return w.answer(clientv3.OpResponse{}, err)
	}
	w.events(events)
	return string(w.out)
}

// real is the side on a server.
type real struct {
	client *clientv3.Client
	rev0   int64
}

func (s *real) ctx() context.Context { return context.Background() }

func (s *real) do(_ *testing.T, cmps []clientv3.Cmp, then, els []clientv3.Op) string {
	r, err := s.client.Txn(s.ctx()).If(cmps...).Then(then...).Else(els...).Commit()
	return (&printed{rev0: s.rev0}).answer(r.OpResponse(), err)
}

func (s *real) op(_ *testing.T, op clientv3.Op) string {
	r, err := s.client.Do(s.ctx(), op)
	return (&printed{rev0: s.rev0}).answer(r, err)
}

func (s *real) put(t *testing.T, key string) {
	t.Helper()
	if _, err := s.client.Put(t.Context(), key, ""); err != nil {
		t.Fatal(err)
	}
}

// The server's own Grant draws the ID; only the message lets us choose.
func (s *real) grant(_ *testing.T, id clientv3.LeaseID) string {
	err := grantAs(s.ctx(), s.client, id)
	return (&printed{}).answer(clientv3.OpResponse{}, err)
}

func (s *real) revoke(_ *testing.T, id clientv3.LeaseID) string {
	_, err := s.client.Revoke(s.ctx(), id)
	return (&printed{}).answer(clientv3.OpResponse{}, err)
}

func (s *real) alive(_ *testing.T, id clientv3.LeaseID) bool {
	_, err := s.client.KeepAliveOnce(s.ctx(), id)
	return err == nil
}

func (s *real) compact(_ *testing.T, rev int64) string {
	_, err := s.client.Compact(s.ctx(), rev)
	return (&printed{}).answer(clientv3.OpResponse{}, err)
}

func (s *real) watch(t *testing.T, root string, from int64) string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &printed{rev0: s.rev0}
	for resp := range s.client.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := resp.Err(); err != nil {
			return w.answer(clientv3.OpResponse{}, err)
		}
		for _, ev := range resp.Events {
			w.events([]*mvccpb.Event{(*mvccpb.Event)(ev)})
			if string(ev.Kv.Key) == root+"end" {
				return string(w.out)
			}
		}
	}
	t.Fatalf("the watch ended: %v", ctx.Err())
	return ""
}

func grantAs(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) error {
	_, err := clientv3.RetryLeaseClient(client).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: 3600})
	return err
}
