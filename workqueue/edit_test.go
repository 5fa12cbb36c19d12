package workqueue_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

var bigPayload = []byte(strings.Repeat("p", 2000))

// breaking is ann, who takes a job from its owner.
func breaking() workqueue.By {
	by := ann
	by.BreakClaim = true
	return by
}

func payloadIs(b []byte) func(*workqueue.Params) error {
	return func(p *workqueue.Params) error { p.Payload = b; return nil }
}

func TestEdit(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	d.add(workqueue.Params{ID: "x", Payload: []byte("small"), Kind: "k", RunAt: later, Labels: map[string]string{"a": "1"}, MaxAttempts: 3})
	born := get(t, d.q, "x").Born
	for _, payload := range [][]byte{bigPayload, []byte("small again"), bytes.Repeat([]byte("q"), 3000), {}} {
		j, err := admin.Edit(bounded(t), d.q, "x", payloadIs(payload), ann)
		got := get(t, d.q, "x")
		if err != nil || !bytes.Equal(got.Payload, payload) || !bytes.Equal(j.Payload, payload) || got.PayloadSize != len(payload) || j.Revision != got.Revision {
			t.Fatalf("%d bytes: %+v, %+v, %v", len(payload), j, got, err)
		}
		if beside := slices.Contains(d.places("x"), "payloads"); beside != (len(payload) > 1024) {
			t.Errorf("%d bytes: they lie beside: %v", len(payload), beside)
		}
	}
	j, err := admin.Edit(bounded(t), d.q, "x", func(p *workqueue.Params) error {
		if p.Kind != "k" || p.MaxAttempts != 3 || !p.RunAt.Equal(later) {
			t.Errorf("it is shown as %+v", p)
		}
		p.Labels["b"] = "2"
		p.Priority, p.RunAt, p.MaxAttempts, p.Kind = 5, time.Time{}, 9, "l"
		return nil
	}, ann)
	if err != nil {
		t.Fatal(err)
	}
	if j.Priority != 5 || j.State != workqueue.StateReady || j.MaxAttempts != 9 || j.Kind != "l" || j.Labels["a"] != "1" || j.Labels["b"] != "2" || j.Born != born {
		t.Errorf("got %+v", j)
	}
	last := j.Attempts[len(j.Attempts)-1]
	if last.Outcome != "edited" || last.Actor != "ann" || last.Reason != "because" || len(j.Attempts) != 5 {
		t.Errorf("got %+v", j.Attempts)
	}
	before := d.revision()
	oops := errors.New("oops")
	for name, tc := range map[string]struct {
		id   string
		edit func(*workqueue.Params) error
		rev  int64
		want error
	}{
		"an error of the editor": {"x", func(*workqueue.Params) error { return oops }, 0, oops},
		"another id":             {"x", func(p *workqueue.Params) error { p.ID = "y"; return nil }, 0, coord.ErrInvalid},
		"at most once":           {"x", func(p *workqueue.Params) error { p.AtMostOnce = true; return nil }, 0, coord.ErrInvalid},
		"another trace":          {"x", func(p *workqueue.Params) error { p.Trace = map[string]string{"t": "1"}; return nil }, 0, coord.ErrInvalid},
		"too much":               {"x", payloadIs(make([]byte, 300<<10)), 0, coord.ErrInvalid},
		"a negative limit":       {"x", func(p *workqueue.Params) error { p.MaxAttempts = -1; return nil }, 0, coord.ErrInvalid},
		"one that moved":         {"x", payloadIs(nil), 1, workqueue.ErrConflict},
		"nobody":                 {"y", payloadIs(nil), 0, workqueue.ErrNotFound},
	} {
		by := ann
		by.Revision = tc.rev
		if _, err := admin.Edit(bounded(t), d.q, tc.id, tc.edit, by); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	if after := d.revision(); after != before {
		t.Errorf("refused edits wrote: revision %d after %d", after, before)
	}
}

// A claimed job is its owner's, until somebody says that it is to be taken from it.
func TestRepairsOfAClaimedJob(t *testing.T) {
	for name, do := range map[string]func(d *desk, by workqueue.By) error{
		"edit": func(d *desk, by workqueue.By) error {
			_, err := admin.Edit(bounded(t), d.q, "x", payloadIs(bigPayload), by)
			return err
		},
		"move": func(d *desk, by workqueue.By) error {
			_, err := admin.Move(bounded(t), d.q, "x", "r", by)
			return err
		},
		"delete": func(d *desk, by workqueue.By) error { _, err := admin.Delete(bounded(t), d.q, "x", by); return err },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, workqueue.Config{})
			d.add(workqueue.Params{ID: "x", Payload: []byte("1")})
			c := d.claim()
			if err := do(d, ann); !errors.Is(err, workqueue.ErrNotApplicable) {
				t.Errorf("of a claimed job: got %v", err)
			}
			if err := c.Checkpoint(bounded(t), []byte("1")); err != nil {
				t.Fatal(err)
			}
			if err := do(d, breaking()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := c.Context(t.Context())
			defer cancel()
			receive(t, ctx.Done(), "the owner is told")
			if err := c.Complete(bounded(t), nil); !errors.Is(err, coord.ErrFenced) {
				t.Errorf("the owner completed: %v", err)
			}
			if at := d.places("x"); name != "edit" && len(at) > 0 {
				t.Errorf("left behind: %q", at)
			}
		})
	}
}

func TestMove(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	to := openAt(t, d.client, workqueue.Config{Queue: "r", Root: d.root})
	enqueue(t, to, workqueue.Params{ID: "first"}, workqueue.Params{ID: "taken"})
	d.add(workqueue.Params{ID: "x/1", Payload: bigPayload})
	c := d.claim()
	if err := c.Checkpoint(bounded(t), []byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := c.Fail(bounded(t), workqueue.RetryAfter(time.Millisecond, errors.New("once"))); err != nil {
		t.Fatal(err)
	}
	was := get(t, d.q, "x/1")
	j, err := admin.Move(bounded(t), d.q, "x/1", "r", ann)
	if err != nil {
		t.Fatal(err)
	}
	got := get(t, to, "x/1")
	if j.Queue != "r" || j.Revision != got.Revision || got.Born != was.Born || !bytes.Equal(got.Payload, bigPayload) || string(got.Checkpoint) != "half" || got.Failures != 1 {
		t.Errorf("got %+v, %+v", j, got)
	}
	if last := got.Attempts[len(got.Attempts)-1]; last.Outcome != "moved" || last.From != "q" || last.Actor != "ann" || last.Reason != "because" {
		t.Errorf("got %+v", last)
	}
	if at := d.places("x/1"); len(at) > 0 {
		t.Errorf("left behind: %q", at)
	}
	var order []string
	for _, want := range []string{"first", "taken", "x/1"} {
		c := claim(t, d.client, d.root, to, d.s)
		order = append(order, c.Job().ID)
		if want == "x/1" && (!bytes.Equal(c.Job().Payload, bigPayload) || string(c.Job().Checkpoint) != "half") {
			t.Errorf("its next owner gets %+v", c.Job())
		}
		if err := c.Complete(bounded(t), nil); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(order, []string{"first", "taken", "x/1"}) {
		t.Errorf("claimed in the order %q", order)
	}

	d.dead(workqueue.Params{ID: "dead", Payload: bigPayload})
	if j, err := admin.Move(bounded(t), d.q, "dead", "r", ann); err != nil || j.State != workqueue.StateDead {
		t.Errorf("a dead letter: %+v, %v", j, err)
	}
	if j, err := to.Requeue(bounded(t), "dead", ann); err != nil || j.State != workqueue.StateReady || !bytes.Equal(get(t, to, "dead").Payload, bigPayload) {
		t.Errorf("requeued there: %+v, %v", j, err)
	}
	d.done(workqueue.Params{ID: "done"}, "r")
	d.add(workqueue.Params{ID: "taken"})
	for name, tc := range map[string]struct {
		id, to string
		want   error
	}{
		"one that is there":  {"taken", "r", workqueue.ErrExists},
		"to where it is":     {"taken", "q", coord.ErrInvalid},
		"to a queue of none": {"taken", "", coord.ErrInvalid},
		"nobody":             {"nobody", "r", workqueue.ErrNotFound},
		"one that is done":   {"done", "r", workqueue.ErrNotApplicable},
	} {
		if _, err := admin.Move(bounded(t), d.q, tc.id, tc.to, ann); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

func TestDeleteAndRemove(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.dead(workqueue.Params{ID: "dead", Payload: bigPayload})
	d.done(workqueue.Params{ID: "done"}, "r")
	d.add(workqueue.Params{ID: "open", Payload: bigPayload})
	if err := d.q.Pause(bounded(t), ann); err != nil {
		t.Fatal(err)
	}
	settings, err := admin.Settings(bounded(t), d.q)
	if err != nil {
		t.Fatal(err)
	}
	by := workqueue.By{Actor: "ann", Revision: settings.Revision}
	for id, state := range map[string]workqueue.State{"dead": workqueue.StateDead, "done": workqueue.StateDone, "open": workqueue.StateReady} {
		if err := admin.Remove(bounded(t), d.q, by); !errors.Is(err, workqueue.ErrNotApplicable) {
			t.Errorf("with jobs in it: got %v", err)
		}
		stale := workqueue.By{Revision: 1}
		if _, err := admin.Delete(bounded(t), d.q, id, stale); !errors.Is(err, workqueue.ErrConflict) {
			t.Errorf("%s, moved: got %v", id, err)
		}
		if j, err := admin.Delete(bounded(t), d.q, id, ann); err != nil || j.State != state {
			t.Errorf("%s: got %+v, %v", id, j, err)
		}
		if at := d.places(id); len(at) > 0 {
			t.Errorf("%s: left behind: %q", id, at)
		}
		if _, err := admin.Delete(bounded(t), d.q, id, ann); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("%s, again: got %v", id, err)
		}
	}
	if err := admin.Remove(bounded(t), d.q, workqueue.By{Revision: 1}); !errors.Is(err, workqueue.ErrConflict) {
		t.Errorf("with another config: got %v", err)
	}
	if err := admin.Remove(bounded(t), d.q, by); err != nil {
		t.Error(err)
	}
	if names, err := (workqueue.Queues{Client: d.client, Root: d.root}).Names(bounded(t)); err != nil || len(names) > 0 {
		t.Errorf("queues %q, %v", names, err)
	}
}
