package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// desk is a queue on the shared server, with a session that works it by hand.
type desk struct {
	t      testing.TB
	client *clientv3.Client
	root   string
	keys   keyspace.QueueKeys
	q      *workqueue.Queue
	s      *coord.Session
}

func newDesk(t testing.TB, cfg workqueue.Config) *desk {
	t.Helper()
	client, root := shared(t)
	cfg.Root = root
	d := &desk{t: t, client: client, root: root, keys: keysOf(t, root)}
	d.q, d.s = openAt(t, client, cfg), session(t, client, root)
	return d
}

func (d *desk) add(p workqueue.Params) *workqueue.Job {
	d.t.Helper()
	j, err := d.q.Enqueue(bounded(d.t), p)
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

func (d *desk) claim() *workqueue.Claim {
	d.t.Helper()
	return claim(d.t, d.client, d.root, d.q, d.s)
}

// done enqueues a job and completes it.
func (d *desk) done(p workqueue.Params, result string) {
	d.t.Helper()
	d.add(p)
	if err := d.claim().Complete(bounded(d.t), []byte(result)); err != nil {
		d.t.Fatal(err)
	}
}

// dead enqueues a job and fails it for good.
func (d *desk) dead(p workqueue.Params) {
	d.t.Helper()
	d.add(p)
	if err := d.claim().Fail(bounded(d.t), workqueue.Permanent(errors.New("hopeless"))); err != nil {
		d.t.Fatal(err)
	}
}

// value reads a key as it is in etcd.
func (d *desk) value(key string) string {
	d.t.Helper()
	resp, err := d.client.Get(bounded(d.t), key)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func (d *desk) put(key, value string) int64 {
	d.t.Helper()
	resp, err := d.client.Put(bounded(d.t), key, value)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.Header.Revision
}

// revision is the store's: it moves with every write of anybody.
func (d *desk) revision() int64 {
	d.t.Helper()
	resp, err := d.client.Get(bounded(d.t), "x")
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.Header.Revision
}

// places lists in which directories of the queue something of id is.
func (d *desk) places(id string) []string {
	d.t.Helper()
	var found []string
	for dir, key := range map[string]string{
		"jobs": d.keys.Job(id), "done": d.keys.Done(id), "dead": d.keys.Dead(id), "payloads": d.keys.Payload(id), "progress": d.keys.Progress(id),
	} {
		if d.value(key) != "" {
			found = append(found, dir)
		}
	}
	slices.Sort(found)
	return found
}

func TestEnqueueKeepsWhatItIsGiven(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	p := workqueue.Params{
		ID: "a/b ü%2F", Kind: "k", Payload: []byte(`{"html":"<&>"}`), Priority: -3, RunAt: at, Timeout: 1500 * time.Microsecond,
		MaxAttempts: 7, MaxLosses: 2, AtMostOnce: true, Labels: map[string]string{"l": "1"}, Trace: map[string]string{"traceparent": "00"},
	}
	added := d.add(p)
	for name, j := range map[string]*workqueue.Job{"enqueued": added, "read": get(t, d.q, p.ID)} {
		if j.ID != p.ID || j.Queue != "q" || j.Kind != "k" || !bytes.Equal(j.Payload, p.Payload) || j.PayloadSize != len(p.Payload) || j.Priority != -3 ||
			!j.RunAt.Equal(at) || j.Timeout != 2*time.Millisecond || j.MaxAttempts != 7 || j.MaxLosses != 2 || !j.AtMostOnce ||
			j.Labels["l"] != "1" || j.Trace["traceparent"] != "00" || j.State != workqueue.StateScheduled || j.Attempt != 0 || j.Revision == 0 ||
			j.Born == "" || j.IdempotencyKey() != added.IdempotencyKey() || j.EnqueuedAt.IsZero() {
			t.Errorf("%s: %+v", name, j)
		}
	}
	// One that is due already does not wait for anything.
	if j := d.add(workqueue.Params{RunAt: time.Now().Add(-time.Hour)}); !j.RunAt.IsZero() || j.State != workqueue.StateReady || len(j.ID) != 26 {
		t.Errorf("got %+v", j)
	}
}

func TestPayloadsOfEverySizeComeBack(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	for _, size := range []int{0, 1, 1023, 1024, 1025, 256 << 10} {
		id, payload := fmt.Sprint(size), bytes.Repeat([]byte{0, 0xff, '<'}, size/3+1)[:size]
		d.add(workqueue.Params{ID: id, Payload: payload})
		if beside := d.value(d.keys.Payload(id)) != ""; beside != (size > 1024) {
			t.Errorf("%d bytes lie beside the record: %v", size, beside)
		}
		if j := get(t, d.q, id); !bytes.Equal(j.Payload, payload) || j.PayloadSize != size {
			t.Errorf("%d bytes were read as %d (%d)", size, len(j.Payload), j.PayloadSize)
		}
		c := d.claim()
		if !bytes.Equal(c.Job().Payload, payload) {
			t.Errorf("%d bytes were claimed as %d", size, len(c.Job().Payload))
		}
		if err := c.Complete(bounded(t), nil); err != nil {
			t.Fatal(err)
		}
		if got := d.places(id); !slices.Equal(got, []string{"done"}) {
			t.Errorf("%d bytes: done, it is in %q", size, got)
		}
	}
}

func TestBatchesOfAnyLength(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	if results, err := d.q.EnqueueBatch(bounded(t), nil); err != nil || len(results) != 0 {
		t.Errorf("an empty batch: %v, %v", results, err)
	}
	const n = 5000
	items := numbered(n, workqueue.Params{Payload: []byte("1")})
	items[7].Kind, items[4999].ID = strings.Repeat("x", 1000), "j8" // not accepted, and there already
	results, err := d.q.EnqueueBatch(bounded(t), items)
	if err != nil || len(results) != n {
		t.Fatalf("got %d results, %v", len(results), err)
	}
	for i, r := range results {
		switch i {
		case 7:
			if !errors.Is(r.Err, coord.ErrInvalid) || r.Job != nil {
				t.Errorf("item %d: %v, %v", i, r.Job, r.Err)
			}
		case 4999:
			var exists *workqueue.ExistsError
			if !errors.As(r.Err, &exists) || exists.Job.ID != "j8" || exists.Job.Revision != results[8].Job.Revision {
				t.Errorf("item %d: %v, %v", i, r.Job, r.Err)
			}
		default:
			if r.Err != nil || r.Job.ID != items[i].ID {
				t.Fatalf("item %d: %v, %v", i, r.Job, r.Err)
			}
		}
	}
	// They are listed in the order in which they were handed over.
	i := 0
	for j, err := range d.q.List(bounded(t), workqueue.Filter{}) {
		if i == 7 {
			i++
		}
		if err != nil || j.ID != items[i].ID {
			t.Fatalf("place %d: %v, %v", i, j, err)
		}
		i++
	}
	if i != n-1 {
		t.Errorf("%d jobs are listed", i)
	}
}

func TestAnEndedContextEnqueuesNothing(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "warm"}) // opens the lane
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	before := d.revision()
	if _, err := d.q.Enqueue(ctx, workqueue.Params{ID: "x"}); !errors.Is(err, why) || errors.Is(err, coord.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if _, err := d.q.EnqueueBatch(ctx, numbered(3, workqueue.Params{})); err == nil {
		t.Error("a batch was tried")
	}
	if after := d.revision(); after != before {
		t.Error("something was written")
	}
}

func TestSurvives_44_OneIDOneJob(t *testing.T) {
	client, root := shared(t)
	queues := []*workqueue.Queue{openAt(t, client, workqueue.Config{Root: root}), openAt(t, client, workqueue.Config{Root: root})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var created []*workqueue.Job
	var others []error
	for i := range 20 {
		wg.Go(func() {
			j, err := queues[i%2].Enqueue(bounded(t), workqueue.Params{ID: "x", Payload: []byte(fmt.Sprint(i))})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				created = append(created, j)
			} else {
				others = append(others, err)
			}
		})
	}
	wg.Wait()
	if len(created) != 1 || len(others) != 19 {
		t.Fatalf("%d were created, %d were not", len(created), len(others))
	}
	for _, err := range others {
		var exists *workqueue.ExistsError
		if !errors.As(err, &exists) || !errors.Is(err, workqueue.ErrExists) || exists.Job.Revision != created[0].Revision || exists.Job.Born != created[0].Born {
			t.Errorf("got %v, want the job at revision %d", err, created[0].Revision)
		}
	}
}

func TestAnIDThatWasUsedBefore(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 2000)
	for name, tc := range map[string]struct {
		end     func(d *desk)
		state   workqueue.State
		attempt int
		trail   string
	}{
		"done": {func(d *desk) { d.done(workqueue.Params{ID: "x", Payload: big}, "r") }, workqueue.StateDone, 1, "completed"},
		"dead": {func(d *desk) { d.dead(workqueue.Params{ID: "x", Payload: big}) }, workqueue.StateDead, 1, "failed"},
		"dead, with a checkpoint": {func(d *desk) {
			d.add(workqueue.Params{ID: "x", Payload: big})
			c := d.claim()
			if err := errors.Join(c.Checkpoint(bounded(d.t), []byte("half")), c.Fail(bounded(d.t), workqueue.Permanent(errors.New("no")))); err != nil {
				d.t.Fatal(err)
			}
		}, workqueue.StateDead, 1, "failed"},
		"cancelled": {func(d *desk) {
			d.add(workqueue.Params{ID: "x", Payload: big})
			if _, err := d.q.Cancel(bounded(d.t), "x", workqueue.By{}); err != nil {
				d.t.Fatal(err)
			}
		}, workqueue.StateCancelled, 0, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, workqueue.Config{})
			tc.end(d)
			old := get(t, d.q, "x")
			_, err := d.q.Enqueue(bounded(t), workqueue.Params{ID: "x", Dedup: workqueue.UntilRetained})
			var exists *workqueue.ExistsError
			if !errors.As(err, &exists) || exists.Job.State != tc.state || exists.Job.Revision != old.Revision {
				t.Fatalf("until retained: got %v", err)
			}
			j := d.add(workqueue.Params{ID: "x", Payload: []byte("new")})
			if j.Born == old.Born || j.Attempt != tc.attempt || j.Failures != 0 || j.State != workqueue.StateReady || trail(j) != tc.trail {
				t.Errorf("got %+v", j)
			}
			if got := d.places("x"); !slices.Equal(got, []string{"jobs"}) {
				t.Errorf("it is in %q", got)
			}
			c := d.claim()
			if got := c.Job(); string(got.Payload) != "new" || got.Checkpoint != nil || got.Attempt != tc.attempt+1 {
				t.Errorf("claimed %+v", got)
			}
			// While it lives, both modes refuse.
			for _, dedup := range []workqueue.Dedup{0, workqueue.UntilRetained} {
				_, err := d.q.Enqueue(bounded(t), workqueue.Params{ID: "x", Dedup: dedup})
				if !errors.As(err, &exists) || exists.Job.State != workqueue.StateClaimed || exists.Job.Owner != d.s.ID() {
					t.Errorf("dedup %d: got %v", dedup, err)
				}
			}
			// A report works although there was another job of that id.
			if err := errors.Join(c.Progress(bounded(t), []byte("1")), c.Complete(bounded(t), nil)); err != nil {
				t.Error(err)
			}
			if got := d.places("x"); !slices.Equal(got, []string{"done"}) {
				t.Errorf("done, it is in %q", got)
			}
		})
	}
}

// What lies beside a job that somebody deleted by hand is in nobody's way.
func TestLeftoversOfADeletedJob(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.put(d.keys.Progress("x"), `{"w":"0000000000000000","checkpoint":"old"}`)
	d.put(d.keys.Payload("x"), "old")
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	if got := c.Job(); got.Payload != nil || got.Checkpoint != nil {
		t.Errorf("claimed %+v", got)
	}
	for _, p := range []string{"1", "2"} {
		if err := c.Progress(bounded(t), []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, d.q, "x"); string(got.Progress) != "2" {
		t.Errorf("progress is %q", got.Progress)
	}
}

func TestExistsTellsOfAnOrphan(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	d.claim()
	if _, err := d.client.Revoke(bounded(t), d.s.Lease()); err != nil {
		t.Fatal(err)
	}
	_, err := d.q.Enqueue(bounded(t), workqueue.Params{ID: "x"})
	var exists *workqueue.ExistsError
	if !errors.As(err, &exists) || exists.Job.State != workqueue.StateOrphan {
		t.Errorf("got %v", err)
	}
}

func TestPriorityThenAgeIsTheOrder(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	// Two batches, so that age is by revision and by place in a batch.
	enqueue(t, d.q,
		workqueue.Params{ID: "c"}, workqueue.Params{ID: "a", Priority: 5}, workqueue.Params{ID: "z", Priority: -5},
		workqueue.Params{ID: "later", Priority: 100, RunAt: time.Now().Add(time.Hour)})
	enqueue(t, d.q, workqueue.Params{ID: "d"}, workqueue.Params{ID: "b", Priority: 5})
	var got []string
	for range 5 {
		c := d.claim()
		got = append(got, c.Job().ID)
		if err := c.Complete(bounded(t), nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a", "b", "c", "d", "z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := d.q.Claim(bounded(t), d.s); !errors.Is(err, workqueue.ErrEmpty) {
		t.Errorf("a job that is not due: got %v", err)
	}
}

// Whoever enqueues in a Txn of their own gets all of it, or nothing.
func TestEnqueueOpsInTheCallersTxn(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t) + "mine"
	payload := bytes.Repeat([]byte("x"), 3000)
	id, cmps, ops, err := d.q.EnqueueOps(workqueue.Params{Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	commit := func() bool {
		resp, err := d.client.Txn(bounded(t)).If(cmps...).Then(append(ops, clientv3.OpPut(mine, "1"))...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	if !commit() {
		t.Fatal("refused")
	}
	if j := get(t, d.q, id); !bytes.Equal(j.Payload, payload) || d.value(mine) != "1" {
		t.Errorf("got %+v", j)
	}
	if commit() {
		t.Error("the job was created twice")
	}
}
