package workqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

func TestCompleteWithIsAllOrNothing(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t)
	d.add(workqueue.Params{ID: "x"})
	d.add(workqueue.Params{ID: "there"})
	c := d.claim()

	// The next job exists: nothing is written, and the claim stays open.
	_, _, taken, err := d.q.EnqueueOps(workqueue.Params{ID: "there"})
	if err != nil {
		t.Fatal(err)
	}
	err = c.CompleteWith(bounded(t), []byte("r"), append(taken, clientv3.OpPut(mine+"a", "1"))...)
	wantExists(t, err, "there", workqueue.StateReady)
	if errors.Is(err, coord.ErrFenced) || d.value(mine+"a") != "" || get(t, d.q, "x").State != workqueue.StateClaimed {
		t.Fatalf("got %v; something was written", err)
	}
	// So is one of that id that is kept, in done.
	d2 := newDesk(t, workqueue.Config{})
	d2.done(workqueue.Params{ID: "over"}, "")
	d2.add(workqueue.Params{ID: "y"})
	_, _, over, err := d2.q.EnqueueOps(workqueue.Params{ID: "over"})
	if err != nil {
		t.Fatal(err)
	}
	wantExists(t, d2.claim().CompleteWith(bounded(t), nil, over...), "over", workqueue.StateDone)

	// Then with another: all of it lands at one revision.
	_, _, ops, err := d.q.EnqueueOps(workqueue.Params{ID: "next", Payload: []byte(strings.Repeat("p", 2000))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CompleteWith(bounded(t), []byte("r"), append(ops, clientv3.OpPut(mine+"a", "1"), clientv3.OpDelete(mine+"b"))...); err != nil {
		t.Fatal(err)
	}
	x, next := get(t, d.q, "x"), get(t, d.q, "next")
	if x.State != workqueue.StateDone || string(x.Result) != "r" || next.State != workqueue.StateReady || len(next.Payload) != 2000 ||
		x.Revision != next.Revision || d.value(mine+"a") != "1" {
		t.Errorf("got %+v, %+v", x, next)
	}
	if err := c.Complete(bounded(t), nil); !errors.Is(err, workqueue.ErrSettled) {
		t.Errorf("a second time: got %v", err)
	}
}

func wantExists(t *testing.T, err error, id string, state workqueue.State) {
	t.Helper()
	var exists *workqueue.ExistsError
	if !errors.As(err, &exists) || !errors.Is(err, workqueue.ErrExists) || exists.Job.ID != id || exists.Job.State != state {
		t.Fatalf("got %v; want job %s, %s", err, id, state)
	}
}

// A caller's op under a lease that is gone is refused as such, is not taken for a loss of
// the retention lease time and again, and leaves the claim open.
func TestCompleteWithUnderALeaseThatIsGone(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t)
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	err := c.CompleteWith(bounded(t), nil, clientv3.OpPut(mine+"a", "", clientv3.WithLease(4711)))
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatalf("got %v, want lease not found", err)
	}
	if err := c.Complete(bounded(t), []byte("r")); err != nil {
		t.Errorf("the claim is closed by it: %v", err)
	}
}

func TestCompleteWithRefusesWhatCannotJoin(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t)
	d.add(workqueue.Params{ID: "x"})
	d.add(workqueue.Params{ID: "other", Payload: []byte(strings.Repeat("p", 2000))})
	c := d.claim()
	puts := func(n int) (ops []clientv3.Op) {
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint(mine, i), "1"))
		}
		return ops
	}
	before := d.revision()
	for name, ops := range map[string][]clientv3.Op{
		"61 ops":                 puts(61),
		"our root":               {clientv3.OpPut(d.root+"mine", "1")},
		"a job's key":            {clientv3.OpPut(d.keys.Job("other"), "1")},
		"its delete":             {clientv3.OpDelete(d.keys.Job("other"))},
		"a done job":             {clientv3.OpPut(d.keys.Done("other"), "{}")},
		"a range over our root":  {clientv3.OpDelete("/", clientv3.WithPrefix())},
		"all of etcd":            {clientv3.OpDelete("\x00", clientv3.WithFromKey())},
		"nested":                 {clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(d.keys.Job("other"))}, nil)},
		"without a key":          {clientv3.OpPut("", "1")},
		"another job's payload":  {clientv3.OpPut(d.keys.Payload("other"), "mine")},
		"a claimed job's record": {clientv3.OpPut(d.keys.Job("x"), d.value(d.keys.Job("x")))},
	} {
		err := c.CompleteWith(bounded(t), nil, ops...)
		var input *coord.InputError
		if !errors.As(err, &input) || input.Field == "" || input.Reason == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := c.Complete(bounded(t), make([]byte, workqueue.MaxResult+1)); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("a result over the limit: got %v", err)
	}
	if after := d.revision(); after != before {
		t.Error("something was written")
	}
	// Duplicate keys are etcd's to refuse; the claim outlives that too.
	if err := c.CompleteWith(bounded(t), nil, append(puts(1), puts(1)...)...); err == nil {
		t.Error("a key was put twice")
	}
	if err := c.CompleteWith(bounded(t), make([]byte, workqueue.MaxResult), puts(60)...); err != nil {
		t.Errorf("60 ops and the largest result: %v", err)
	}
	if j := get(t, d.q, "x"); len(j.Result) != workqueue.MaxResult || d.value(mine+"59") != "1" {
		t.Errorf("got a result of %d bytes", len(j.Result))
	}
}

// A late owner's writes are refused with its result.
func TestCompleteWithOfALateOwner(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	mine := etcdtest.Root(t)
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	if _, err := admin.BreakClaim(bounded(t), d.q, "x", workqueue.By{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	err := c.CompleteWith(bounded(t), []byte("late"), clientv3.OpPut(mine+"a", "1"))
	var fenced *coord.FencedError
	if !errors.As(err, &fenced) || fenced.Wanted != c.Token() || fenced.Current == c.Token() || d.value(mine+"a") != "" {
		t.Errorf("got %v", err)
	}
	if j := get(t, d.q, "x"); j.State != workqueue.StateReady || trail(j) != "broken" || j.Attempts[0].Actor != "ann" {
		t.Errorf("got %+v", j)
	}
}

// A handler may do with its payload what it likes: the next attempt sees it anew.
func TestAPayloadThatWasChangedInPlace(t *testing.T) {
	d := newDesk(t, workqueue.Config{Backoff: workqueue.Backoff{Initial: 1}})
	d.add(workqueue.Params{ID: "x", Payload: []byte("original"), Labels: map[string]string{"a": "b"}})
	c := d.claim()
	copy(c.Job().Payload, "CHANGED!")
	c.Job().Labels["a"] = "changed"
	if err := c.Fail(bounded(t), errors.New("once more")); err != nil {
		t.Fatal(err)
	}
	if j := d.claim().Job(); string(j.Payload) != "original" || j.Labels["a"] != "b" || j.Attempt != 2 {
		t.Errorf("got %+v", j)
	}
}

func TestProgressAndCheckpoint(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	token := c.Token()
	for _, b := range []string{`{"at":1}`, "plain\x00"} {
		if err := errors.Join(c.Progress(bounded(t), []byte(b)), c.Checkpoint(bounded(t), []byte("c"+b))); err != nil {
			t.Fatal(err)
		}
		if j := get(t, d.q, "x"); string(j.Progress) != b || string(j.Checkpoint) != "c"+b || j.Token != token {
			t.Errorf("got %+v", j)
		}
	}
	before := d.revision()
	for _, keep := range []error{
		c.Progress(bounded(t), make([]byte, 64<<10+1)), c.Checkpoint(bounded(t), make([]byte, 64<<10+1)),
	} {
		if !errors.Is(keep, coord.ErrInvalid) {
			t.Errorf("over the limit: got %v", keep)
		}
	}
	if d.revision() != before {
		t.Error("something was written")
	}
	if err := c.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Progress(bounded(t), nil); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("after the claim: got %v", err)
	}
	again := d.claim()
	if j := again.Job(); string(j.Checkpoint) != "cplain\x00" || j.Attempt != 2 || j.Failures != 0 {
		t.Errorf("the next attempt got %+v", j)
	}
	if err := again.Complete(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	if got := d.places("x"); !slices.Equal(got, []string{"done"}) {
		t.Errorf("done, it is in %q", got)
	}
}

// Many reports at once: one is in flight, the newest of the others follows, and
// all return.
func TestReportsAreCoalesced(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	before := d.revision()
	errs := make(chan error, 200)
	for i := range cap(errs) {
		go func() { errs <- c.Progress(bounded(t), []byte(fmt.Sprint(i))) }()
	}
	for range cap(errs) {
		if err := receive(t, errs, "a report returns"); err != nil {
			t.Error(err)
		}
	}
	if n := d.revision() - before; n < 1 || n > int64(cap(errs)) {
		t.Errorf("%d writes", n)
	}
	if err := c.Progress(bounded(t), []byte("last")); err != nil {
		t.Fatal(err)
	}
	if j := get(t, d.q, "x"); string(j.Progress) != "last" {
		t.Errorf("got %q", j.Progress)
	}
}
