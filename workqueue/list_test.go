package workqueue_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/workqueue"
)

// A limit yields what the whole listing begins with, whatever the order of the keys.
func TestListLimits(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	for i := range 40 {
		p := workqueue.Params{ID: "j" + itoa(i), Priority: i % 3, Kind: "k" + itoa(i%2)}
		if i%5 == 0 {
			p.Labels = map[string]string{"five": "yes"}
		}
		d.add(p)
	}
	for i := range 6 {
		d.dead(workqueue.Params{ID: "dead" + itoa(i), Priority: 9})
	}
	for i := range 6 {
		d.done(workqueue.Params{ID: "done" + itoa(i), Priority: 9}, "r")
	}
	fives := func(j *workqueue.Job) bool { return j.Labels["five"] != "" }
	for name, f := range map[string]workqueue.Filter{
		"all": {}, "kind": {Kind: "k1"}, "match": {Match: fives}, "labels": {Labels: map[string]string{"five": "yes"}},
		"state": {States: []workqueue.State{workqueue.StateDone, workqueue.StateDead}},
	} {
		whole := ids(t, d.q, f)
		for limit := 1; limit <= len(whole)+1; limit++ {
			f.Limit = limit
			if got, want := ids(t, d.q, f), whole[:min(limit, len(whole))]; !slices.Equal(got, want) {
				t.Errorf("%s, limit %d: got %q, want %q", name, limit, got, want)
			}
		}
	}
	read := 0
	if got := ids(t, d.q, workqueue.Filter{Kind: "k1", Read: &read}); len(got) != 20 || read != 52 {
		t.Errorf("got %d jobs of %d that were read, want 20 of 52", len(got), read)
	}
	for _, err := range d.q.List(bounded(t), workqueue.Filter{Limit: -1}) {
		if err == nil {
			t.Error("a negative limit is taken")
		}
	}
}

// What cannot be read is said, whether its head or the rest is broken, and hides nothing.
func TestListSaysWhatCannotBeRead(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "ok"})
	d.put(d.keys.Job("head"), `{"w":"00000000000000aa","v":1}`)
	d.put(d.keys.Job("rest"), `{"w":"00000000000000aa","v":1,"id":"rest","labels":{"a":1}}`)
	for _, limit := range []int{0, 5} {
		var found []string
		broken := 0
		for j, err := range d.q.List(bounded(t), workqueue.Filter{Limit: limit}) {
			switch {
			case errors.Is(err, workqueue.ErrUndecodable):
				broken++
			case err != nil:
				t.Fatal(err)
			default:
				found = append(found, j.ID)
			}
		}
		if broken != 2 || !slices.Equal(found, []string{"ok"}) {
			t.Errorf("limit %d: found %q and %d that cannot be read", limit, found, broken)
		}
	}
	s, err := admin.Count(bounded(t), d.q)
	if err != nil || s.Unreadable != 1 || s.Jobs[workqueue.StateReady] != 2 {
		t.Errorf("counted %+v, %v", s, err)
	}
}

func TestStatsSinceTellsWhatHappened(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	start := time.Now().Add(-time.Minute)
	d.done(workqueue.Params{ID: "done"}, "r")
	d.dead(workqueue.Params{ID: "dead"})
	d.add(workqueue.Params{ID: "cancelled"})
	if _, err := d.q.Cancel(bounded(t), "cancelled", workqueue.By{}); err != nil {
		t.Fatal(err)
	}
	d.add(workqueue.Params{ID: "late"})
	late := d.claim()
	if _, err := admin.BreakClaim(bounded(t), d.q, "late", workqueue.By{}); err != nil {
		t.Fatal(err)
	}
	if err := late.Complete(bounded(t), []byte("too late")); err == nil {
		t.Fatal("a late result was accepted")
	}
	until(t, d.client, d.root, "the refusal is kept", func() bool {
		found, err := admin.Refusals(bounded(t), d.q)
		return err == nil && len(found) == 1
	})
	d.claim()
	d.add(workqueue.Params{ID: "waits", RunAt: time.Now().Add(time.Hour)})
	if err := d.q.Pause(bounded(t), workqueue.By{Actor: "ana"}); err != nil {
		t.Fatal(err)
	}
	s, err := admin.CountSince(bounded(t), d.q, start)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Recent
	if r.Enqueued != 5 || r.Done != 1 || r.Cancelled != 1 || r.Dead != 1 || r.Failed != 1 || r.Lost != 0 || r.Fenced != 1 {
		t.Errorf("recent: %+v", r)
	}
	if r.Reaches.Before(start) || r.RunP95 < 0 || r.RunP95 > time.Minute {
		t.Errorf("recent: %+v", r)
	}
	if s.Claims[d.s.ID()] != 1 || len(s.Orphans) != 0 || s.Jobs[workqueue.StateScheduled] != 1 || !s.Paused || time.Since(s.PausedAt) > time.Minute {
		t.Errorf("stats: %+v", s)
	}
	paused := s.PausedAt
	if err := d.q.Pause(bounded(t), workqueue.By{Actor: "bob"}); err != nil {
		t.Fatal(err)
	}
	if s, err := admin.Settings(bounded(t), d.q); err != nil || !s.PausedAt.Equal(paused) || s.PausedBy != "bob" {
		t.Errorf("paused again: %+v, %v", s, err)
	}
	if _, err := d.client.Revoke(bounded(t), d.s.Lease()); err != nil {
		t.Fatal(err)
	}
	if s, err := admin.CountSince(bounded(t), d.q, time.Now().Add(time.Minute)); err != nil || !slices.Equal(s.Orphans, []string{"late"}) ||
		s.Recent.Enqueued+s.Recent.Done+s.Recent.Dead+s.Recent.Fenced != 0 || !s.Recent.Reaches.IsZero() {
		t.Errorf("stats: %+v, %v", s, err)
	}
}
