package workqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

var ann = workqueue.By{Actor: "ann", Reason: "because"}

func TestCancel(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	for _, id := range []string{"open", "claimed"} {
		d.add(workqueue.Params{ID: id, Payload: []byte(strings.Repeat("p", 2000))})
		var c *workqueue.Claim
		if id == "claimed" {
			c = d.claim()
			if err := c.Checkpoint(bounded(t), []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		j, err := d.q.Cancel(bounded(t), id, ann)
		if err != nil {
			t.Fatal(err)
		}
		got := get(t, d.q, id)
		if got.State != workqueue.StateCancelled || j.State != got.State || j.Revision != got.Revision || got.Error != "because" {
			t.Errorf("%s: got %+v, %+v", id, j, got)
		}
		last := got.Attempts[len(got.Attempts)-1]
		if last.Outcome != "cancelled" || last.Actor != "ann" || last.Reason != "because" {
			t.Errorf("%s: got %+v", id, last)
		}
		if at := d.places(id); !slices.Equal(at, []string{"done"}) {
			t.Errorf("%s: it is in %q", id, at)
		}
		if c == nil {
			// It is not claimed any more.
			continue
		}
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		receive(t, ctx.Done(), "the owner is told")
		if err := c.Complete(bounded(t), []byte("late")); !errors.Is(err, coord.ErrFenced) {
			t.Errorf("%s: the owner completed: %v", id, err)
		}
	}
	for id, want := range map[string]error{"open": workqueue.ErrNotApplicable, "nobody": workqueue.ErrNotFound, "": coord.ErrInvalid} {
		if _, err := d.q.Cancel(bounded(t), id, ann); !errors.Is(err, want) {
			t.Errorf("cancel %q: got %v, want %v", id, err, want)
		}
	}
}

func TestRequeue(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	big := []byte(strings.Repeat("p", 2000))
	d.dead(workqueue.Params{ID: "dead", Payload: big})
	d.done(workqueue.Params{ID: "done", Payload: []byte("small")}, "result")
	d.done(workqueue.Params{ID: "done, payload gone", Payload: big}, "result")
	d.add(workqueue.Params{ID: "live"})
	d.add(workqueue.Params{ID: "cancelled"})
	if _, err := d.q.Cancel(bounded(t), "cancelled", ann); err != nil {
		t.Fatal(err)
	}
	for id, payload := range map[string]string{"dead": string(big), "done": "small", "cancelled": ""} {
		if _, err := d.q.Requeue(bounded(t), id, ann); err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		j := get(t, d.q, id)
		last := j.Attempts[len(j.Attempts)-1]
		if j.State != workqueue.StateReady || j.Failures != 0 || j.Error != "" || j.Result != nil || string(j.Payload) != payload ||
			last.Outcome != "requeued" || last.Actor != "ann" || last.Reason != "because" || last.Attempt != 0 {
			t.Errorf("%s: got %+v", id, j)
		}
	}
	// Behind the jobs that wait.
	if j := d.claim().Job(); j.ID != "live" {
		t.Errorf("claimed %s", j.ID)
	}
	before := d.revision()
	_, err := d.q.Requeue(bounded(t), "done, payload gone", ann)
	if !errors.Is(err, workqueue.ErrNotApplicable) || !strings.Contains(err.Error(), "payload") || !strings.Contains(err.Error(), "enqueue it anew") {
		t.Errorf("got %v", err)
	}
	for id, want := range map[string]error{"live": workqueue.ErrNotApplicable, "nobody": workqueue.ErrNotFound} {
		if _, err := d.q.Requeue(bounded(t), id, ann); !errors.Is(err, want) {
			t.Errorf("requeue %q: got %v, want %v", id, err, want)
		}
	}
	if d.revision() != before {
		t.Error("something was written")
	}
}

func TestBreakClaim(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	if err := c.Checkpoint(bounded(t), []byte("half")); err != nil {
		t.Fatal(err)
	}
	j, err := admin.BreakClaim(bounded(t), d.q, "x", ann)
	if err != nil || j.State != workqueue.StateReady || j.Owner != "" {
		t.Fatalf("got %+v, %v", j, err)
	}
	ctx, cancel := c.Context(t.Context())
	defer cancel()
	receive(t, ctx.Done(), "the owner is told")
	if err := c.Fail(bounded(t), errors.New("late")); !errors.Is(err, coord.ErrFenced) {
		t.Errorf("the owner failed it: %v", err)
	}
	if next := d.claim(); string(next.Job().Checkpoint) != "half" || next.Job().Attempt != 2 || next.Job().Losses != 0 {
		t.Errorf("got %+v", next.Job())
	}
	d.add(workqueue.Params{ID: "open"})
	if _, err := admin.BreakClaim(bounded(t), d.q, "open", ann); !errors.Is(err, workqueue.ErrNotApplicable) {
		t.Errorf("got %v", err)
	}
	if _, err := d.q.Cancel(bounded(t), "open", ann); err != nil { // or it could be claimed instead of the next
		t.Fatal(err)
	}
	d.add(workqueue.Params{ID: "once", AtMostOnce: true})
	d.claim()
	if j, err := admin.BreakClaim(bounded(t), d.q, "once", ann); err != nil || j.State != workqueue.StateDead {
		t.Errorf("an at-most-once job: got %+v, %v", j, err)
	}
}

// Whoever names the revision that they saw acts on that, or not at all.
func TestByRevisionGuards(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	seen := d.add(workqueue.Params{ID: "x"})
	c := d.claim()
	before := d.revision()
	by := workqueue.By{Revision: seen.Revision}
	for name, act := range map[string]func() error{
		"cancel": func() error { _, err := d.q.Cancel(bounded(t), "x", by); return err },
		"break":  func() error { _, err := admin.BreakClaim(bounded(t), d.q, "x", by); return err },
		"pause":  func() error { return d.q.Pause(bounded(t), by) },
	} {
		if err := act(); !errors.Is(err, workqueue.ErrConflict) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if d.revision() != before {
		t.Error("something was written")
	}
	if _, err := d.q.Cancel(bounded(t), "x", workqueue.By{Revision: int64(c.Token())}); err != nil {
		t.Errorf("with the right revision: %v", err)
	}
}

func TestPauseAndResume(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	rev := d.put(d.keys.Config(), `{"w":"0000000000000000","mode":"dispatch","limits":{"gpu":9007199254740993},"reason":"old"}`)
	if err := d.q.Pause(bounded(t), workqueue.By{Actor: "ann", Reason: "<maintenance>", Revision: rev}); err != nil {
		t.Fatal(err)
	}
	paused := d.value(d.keys.Config())
	for _, want := range []string{`"paused":true`, `"actor":"ann"`, `"reason":"<maintenance>"`, `"mode":"dispatch"`, `"limits":{"gpu":9007199254740993}`} {
		if !strings.Contains(paused, want) {
			t.Errorf("paused, %s is not in %s", want, paused)
		}
	}
	if keyspace.NonceOf([]byte(paused)) == "" {
		t.Errorf("it does not begin with a head nonce: %s", paused)
	}
	d.add(workqueue.Params{ID: "x"})
	if _, err := d.q.Claim(bounded(t), d.s); !errors.Is(err, workqueue.ErrEmpty) {
		t.Errorf("claimed from a paused queue: %v", err)
	}
	if err := d.q.Resume(bounded(t), workqueue.By{}); err != nil {
		t.Fatal(err)
	}
	resumed := d.value(d.keys.Config())
	if strings.Contains(resumed, "paused") || !strings.Contains(resumed, `"mode":"dispatch","`) && !strings.Contains(resumed, `"mode":"dispatch"}`) {
		t.Errorf("resumed: %s", resumed)
	}
	d.claim()
	d.put(d.keys.Config(), "not json")
	for name, act := range map[string]func() error{
		"pause": func() error { return d.q.Pause(bounded(t), ann) }, "resume": func() error { return d.q.Resume(bounded(t), ann) },
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), "config") {
			t.Errorf("%s over a config that cannot be read: %v", name, err)
		}
	}
}

// A record that cannot be read is in nobody's way.
func TestUndecodableRecordsBlockNobody(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "other"})
	other := d.value(d.keys.Job("other"))
	d.put(d.keys.Job("garbage"), "garbage")
	d.put(d.keys.Job("liar"), other) // its value names another job
	d.put(d.keys.Jobs()+"foreign", other)
	d.put(d.keys.Dead("dead"), "{}")
	d.put(d.keys.Done("done"), "{}")
	for _, id := range []string{"garbage", "liar", "dead", "done"} {
		if _, err := d.q.Get(bounded(t), id); !errors.Is(err, workqueue.ErrUndecodable) {
			t.Errorf("get %s: %v", id, err)
		}
		if _, err := d.q.Wait(bounded(t), id); !errors.Is(err, workqueue.ErrUndecodable) {
			t.Errorf("wait for %s: %v", id, err)
		}
		if _, err := d.q.Cancel(bounded(t), id, ann); !errors.Is(err, workqueue.ErrUndecodable) {
			t.Errorf("cancel %s: %v", id, err)
		}
		// Nothing is overwritten that might mean something to a newer program.
		_, err := d.q.Enqueue(bounded(t), workqueue.Params{ID: id})
		if !errors.Is(err, workqueue.ErrUndecodable) {
			t.Errorf("enqueue %s: %v", id, err)
		}
		if live := id == "garbage" || id == "liar"; live != errors.Is(err, workqueue.ErrExists) {
			t.Errorf("enqueue %s: %v", id, err)
		}
	}
	var read, unread []string
	for j, err := range d.q.List(bounded(t), workqueue.Filter{}) {
		switch {
		case errors.Is(err, workqueue.ErrUndecodable):
			unread = append(unread, err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			read = append(read, j.ID)
		}
	}
	if len(unread) != 5 || !slices.Equal(read, []string{"other"}) {
		t.Errorf("listed %q, and %q that cannot be read", read, unread)
	}
	found, err := admin.Undecodable(bounded(t), d.q)
	if err != nil || len(found) != 3 || !errors.Is(found[d.keys.Job("liar")], workqueue.ErrUndecodable) {
		t.Errorf("got %v, %v", found, err)
	}
	c := d.claim()
	if c.Job().ID != "other" || c.Fence().Key != d.keys.Job("other") {
		t.Errorf("claimed %+v", c.Fence())
	}
	if err := c.Complete(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	if err := d.q.WaitEmpty(bounded(t)); err != nil {
		t.Errorf("they are waited for: %v", err)
	}
	if d.value(d.keys.Job("liar")) != other {
		t.Error("the liar changed")
	}
}

// Names that look like parts of keys do not reach into other queues.
func TestNamesDoNotTouchEachOther(t *testing.T) {
	client, root := shared(t)
	names := []string{"a", "a/jobs", "a%2Fjobs", "a/jobs/00", "..", ".", "a\\b", "ü", "jobs", " "}
	queues := map[string]*workqueue.Queue{}
	for _, name := range names {
		queues[name] = openAt(t, client, workqueue.Config{Root: root, Queue: name})
		for _, id := range names {
			if _, err := queues[name].Enqueue(bounded(t), workqueue.Params{ID: id, Payload: []byte(fmt.Sprintf("%s in %s", id, name))}); err != nil {
				t.Fatalf("%q in %q: %v", id, name, err)
			}
		}
	}
	if _, err := queues["a"].Cancel(bounded(t), "a/jobs", ann); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		live := 0
		for j, err := range queues[name].List(bounded(t), workqueue.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%s in %s", j.ID, name); string(j.Payload) != want || j.Queue != name {
				t.Errorf("got %q in queue %q, want %q", j.Payload, j.Queue, want)
			}
			if j.State.Live() {
				live++
			}
		}
		want := len(names)
		if name == "a" {
			want--
		}
		if live != want {
			t.Errorf("%q has %d live jobs, want %d", name, live, want)
		}
	}
}
