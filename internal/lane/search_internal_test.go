package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/memetcd"
)

// heldRequest is one Txn that a committer has sent: it waits for its fate.
type heldRequest struct {
	lane string
	txn  etcdkv.Txn
	fate chan heldAnswer
	gone bool // the sender has given up
}

type heldAnswer struct {
	resp *clientv3.TxnResponse
	err  error
}

// heldBackend is etcd in memory behind a network that moves only when it is told to.
// Writes wait for their fate; reads, and what concerns leases, are answered at once.
type heldBackend struct {
	etcdkv.Backend // what is not played panics

	mu   sync.Mutex
	etcd memetcd.Store
	held []*heldRequest
	late []etcdkv.Txn
	// noLanes takes the lane compare out of what arrives.
	noLanes bool
	leases  []int64
}

func (b *heldBackend) Txn(ctx context.Context, t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	if len(t.If) == 0 {
		defer b.mu.Unlock()
		return b.etcd.Commit(t.If, t.Then, t.Else)
	}
	lane := string(t.Then[0].KeyBytes())
	r := &heldRequest{lane: lane[strings.LastIndex(lane, "/"):], txn: t, fate: make(chan heldAnswer, 1)}
	b.held = append(b.held, r)
	b.mu.Unlock()
	select {
	case a := <-r.fate:
		return a.resp, a.err
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		r.gone = true
		b.late = append(b.late, t) // it may arrive all the same
		return nil, ctx.Err()
	}
}

func (b *heldBackend) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.etcd.KV().Get(ctx, key, opts...)
}

func (b *heldBackend) Grant(_ context.Context, id clientv3.LeaseID, ttl int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases = append(b.leases, int64(id))
	return ttl, b.etcd.Grant(int64(id), ttl)
}

func (b *heldBackend) Revoke(_ context.Context, id clientv3.LeaseID) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.etcd.Revoke(int64(id))
	return b.etcd.Rev(), err
}

// apply is a Txn's arrival.
func (b *heldBackend) apply(t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	if b.noLanes {
		t.If = slices.DeleteFunc(slices.Clone(t.If), func(c clientv3.Cmp) bool { return strings.Contains(string(c.KeyBytes()), "/lanes/") })
	}
	return b.etcd.Commit(t.If, t.Then, t.Else)
}

// sortedHeld are the requests that wait, in an order that does not hang on goroutines.
func (b *heldBackend) sortedHeld() []*heldRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = slices.DeleteFunc(b.held, func(r *heldRequest) bool { return r.gone })
	slices.SortStableFunc(b.held, func(x, y *heldRequest) int { return cmp.Compare(x.lane, y.lane) })
	return slices.Clone(b.held)
}

// laneRun is one run of the real committer under one sequence of choices.
type laneRun struct {
	b       *heldBackend
	data    string
	choices []int // to follow; what is beyond is 0
	taken   []int // how many there were each time
	script  []string
	// What is left to go wrong. Denied requests are refused outright, or complained about
	// however they were applied.
	lost, foreign, ended, compacted, closed, denied int
	exists                                          bool       // the job is there before
	lean                                            bool       // what is committed first shares a compare and a lean batch
	excused                                         bool       // an outcome may stay unknown
	twice                                           *twoWrites // is played, where it is set
	pending                                         map[string]*Pending
	c                                               *Committer
}

// choose takes the next choice of n.
func (r *laneRun) choose(n int) int {
	i := len(r.taken)
	r.taken = append(r.taken, n)
	if i < len(r.choices) {
		return r.choices[i]
	}
	return 0
}

// move is one thing that can happen next.
type move struct {
	name string
	do   func()
}

// moves are all that can happen, the undisturbed course first.
func (r *laneRun) moves() (moves []move) {
	for i, h := range r.b.sortedHeld() {
		name := fmt.Sprintf("request %d", i)
		moves = append(moves, move{name + " arrives, and its answer", func() { r.decide(h, true, nil) }})
		if r.lost > 0 {
			moves = append(moves,
				move{name + " arrives, its answer is lost", func() { r.lost--; r.decide(h, true, faultkv.ErrLost) }},
				move{name + " is late: its sender sees an error", func() { r.lost--; r.decide(h, false, faultkv.ErrLost) }})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	moves = append(moves, r.denials()...)
	moves = append(moves, r.twice.moves(r)...)
	for i := range r.b.lateNow() {
		moves = append(moves, move{fmt.Sprintf("late request %d arrives", i), func() { r.arrive(i) }})
	}
	if r.foreign > 0 {
		moves = append(moves, move{"the job is over: somebody deletes it", func() { r.foreign--; r.other(clientv3.OpDelete(r.data + "job")) }},
			move{"somebody changes what was read", func() { r.foreign--; r.other(clientv3.OpPut(r.data+"payload", "changed")) }})
	}
	if r.ended > 0 && len(r.b.leases) > 0 {
		moves = append(moves, move{"the lanes' lease ends", func() {
			r.ended--
			r.excused = true
			_ = r.b.etcd.Revoke(r.b.leases[len(r.b.leases)-1])
		}})
	}
	if r.compacted > 0 && r.b.etcd.Rev() > 2 {
		moves = append(moves, move{"history is compacted", func() {
			r.compacted--
			r.excused = true
			r.other(clientv3.OpPut(r.data+"tick", ""))
			_ = r.b.etcd.Compact(r.b.etcd.Rev())
		}})
	}
	if r.closed > 0 {
		moves = append(moves, move{"the process gives up and closes", func() { r.closed--; r.excused = true; r.close(0) }})
	}
	return moves
}

// close ends the committer, with so much time for what is under way.
func (r *laneRun) close(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = r.c.Close(ctx)
}

// decide gives a request its fate.
func (r *laneRun) decide(h *heldRequest, arrives bool, answer error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.held = slices.DeleteFunc(r.b.held, func(x *heldRequest) bool { return x == h })
	var a heldAnswer
	if arrives {
		a.resp, a.err = r.b.apply(h.txn)
	} else {
		r.b.late = append(r.b.late, h.txn)
	}
	if answer != nil {
		a = heldAnswer{err: answer}
	}
	h.fate <- a
}

func (r *laneRun) arrive(i int) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	t := r.b.late[i]
	r.b.late = slices.Delete(r.b.late, i, i+1)
	_, _ = r.b.apply(t)
}

// lateNow is how many requests are late.
func (b *heldBackend) lateNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.late)
}

func (r *laneRun) other(op clientv3.Op) {
	if _, err := r.b.etcd.Commit(nil, []clientv3.Op{op}, nil); err != nil {
		panic(err)
	}
}

// laneTxns are what is committed: an enqueue, whose guard holds again once the job is
// over, and which reads beside; a write that nothing guards but the lane; and, once
// both are settled, one that carries a fence.
func (r *laneRun) laneTxns() (first []etcdkv.Txn, then etcdkv.Txn) {
	job, blind := r.data+"job", r.data+"blind"
	if r.lean {
		seen := func() clientv3.Cmp { return clientv3.Compare(clientv3.ModRevision(r.data+"payload"), "=", 2) }
		defer func() {
			for i := range first {
				first[i].If = append(first[i].If, seen())
			}
		}()
	}
	return []etcdkv.Txn{{
			If:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(job), "=", 0)},
			Then: []clientv3.Op{clientv3.OpPut(job, "1"), clientv3.OpGet(r.data + "payload")},
			Else: []clientv3.Op{clientv3.OpGet(job)},
		}, {Then: []clientv3.Op{clientv3.OpPut(blind, "1")}}}, etcdkv.Txn{
			If:   etcdkv.GuardOf(job, 3, ""),
			Then: []clientv3.Op{clientv3.OpDelete(r.data + "absent")}, // leaves no evidence: a note must
			Else: []clientv3.Op{clientv3.OpGet(job)},
		}
}

// run is one life of the committer, from its first request to its last answer.
func (r *laneRun) run() error {
	keys, err := keyspace.New("/l/")
	if err != nil {
		return err
	}
	r.data, r.pending = "/data/", map[string]*Pending{}
	r.other(clientv3.OpPut(r.data+"payload", "read me"))
	if r.exists {
		r.other(clientv3.OpPut(r.data+"job", "before"))
	}
	c := NewCommitter(etcdkv.NewStoreOn(r.b, keys, nil), "c")
	r.c = c
	if r.twice != nil {
		return r.twice.run(r)
	}
	first, then := r.laneTxns()
	if r.lean {
		c.plain = 0
		r.pending["gate"] = c.Go(faultkv.PutTxn(r.data+"gate", "1")) // what comes meanwhile travels together
	}
	r.pending["job"], r.pending["blind"] = c.Go(first[0]), c.Go(first[1])
	err = r.play(func() bool {
		more := r.pending["fenced"] == nil
		if more {
			r.pending["fenced"] = c.Go(then)
		}
		return more
	})
	if err != nil {
		return err
	}
	return r.judge()
}

// play moves on until all is settled and there is no more, and whatever was on its way
// has arrived.
func (r *laneRun) play(more func() bool) error {
	for steps := 0; ; steps++ {
		synctest.Wait()
		if r.settled() {
			if !more() {
				break
			}
			continue
		}
		moves := r.moves()
		if len(moves) == 0 {
			<-time.After(2 * time.Second) // of the bubble: the committer pauses before it sends again
			continue
		}
		if steps > 60 {
			return errors.New("the committer never comes to an end")
		}
		m := moves[r.choose(len(moves))]
		r.script = append(r.script, m.name)
		m.do()
	}
	r.close(time.Minute)
	for r.b.lateNow() > 0 { // what is late arrives after all
		r.arrive(0)
	}
	return nil
}

func (r *laneRun) settled() bool {
	for _, p := range r.pending {
		select {
		case <-p.Done():
		default:
			return false
		}
	}
	return true
}

// judge holds what the callers were told against what etcd's history says.
func (r *laneRun) judge() error {
	compacted := r.b.etcd.Compacted()
	for name, p := range r.pending {
		res, err := p.Result()
		puts := r.putsOf(name, res.Revision)
		switch {
		case errors.Is(err, fault.ErrUnknown):
			if !r.excused {
				return fmt.Errorf("%s: the outcome is not known, although etcd knows: %w", name, err)
			}
			if len(puts) > 1 {
				return fmt.Errorf("%s was applied %d times", name, len(puts))
			}
			continue
		case err != nil && len(puts) > 0:
			return fmt.Errorf("%s was applied, its caller is told %w", name, err)
		case err != nil:
			continue
		case res.Succeeded && (len(puts) != 1 || puts[0] != res.Revision):
			return fmt.Errorf("%s was applied at %v, its caller is told at %d", name, puts, res.Revision)
		case !res.Succeeded && len(puts) > 0:
			return fmt.Errorf("%s was applied at %v, its caller is told that it was refused", name, puts)
		}
		if name == "job" && res.Succeeded && res.Revision > compacted {
			at, err := r.b.etcd.Range(&pb.RangeRequest{Key: []byte(r.data + "payload"), Revision: res.Revision})
			if got := res.Get(1); err != nil || got == nil || string(got.Value) != string(at.Kvs[0].Value) {
				return fmt.Errorf("the caller of %s reads %v, the Txn read %v", name, got, at)
			}
		}
	}
	return nil
}

// putsOf lists the revisions at which a Txn was applied. The one that only deletes is
// known by the note that its lane keeps.
func (r *laneRun) putsOf(name string, told int64) (revs []int64) {
	compacted := r.b.etcd.Compacted()
	events, err := r.b.etcd.Events([]byte(r.data+name), nil, max(1, compacted))
	if name == "fenced" {
		events, err = r.b.etcd.Events([]byte("/l/lanes/"), []byte("/l/lanes0"), max(1, compacted))
	}
	if err != nil {
		return nil
	}
	for _, ev := range events {
		if ev.Type != clientv3.EventTypePut || string(ev.Kv.Value) == "before" || name == "fenced" && !strings.Contains(string(ev.Kv.Key), "-0") {
			continue
		}
		revs = append(revs, ev.Kv.ModRevision)
	}
	if told > 0 && told <= compacted && len(revs) == 0 {
		return []int64{told} // nobody can tell any more
	}
	return revs
}
