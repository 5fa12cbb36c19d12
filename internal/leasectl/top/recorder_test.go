package top_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/leasekit/leasekit/internal/leasectl/top"
)

func pressed(r rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: r, Text: string(r)} }

func TestRecorderKeepsWhoRunsWhat(t *testing.T) {
	var r top.Recorder
	r.Runs([]top.Job{{Queue: "q", ID: "old", Owner: "a", Claimed: noon}})
	r.Happened([]top.Event{
		{Type: "claimed", Queue: "q", ID: "new", Session: "a", Time: noon.Add(time.Second)},
		{Type: "claimed", Queue: "q", ID: "other", Session: "b", Time: noon},
		{Type: "progress", Queue: "q", ID: "other"},
		{Type: "paused", Queue: "q", Revision: 7},
	})
	n, fresh := r.Take(noon)
	if got := n.Running["a"].ID + " " + n.Running["b"].ID; !fresh || got != "old other" || n.Rev != 7 || len(n.Events) != 4 {
		t.Errorf("fresh %t, running %q, %+v", fresh, got, n)
	}
	r.Happened([]top.Event{
		{Type: "done", Queue: "q", ID: "old"},
		{Type: "reclaimed", Queue: "q", ID: "other", Session: "c", Time: noon},
	})
	n, _ = r.Take(noon)
	if len(n.Running) != 2 || n.Running["a"].ID != "new" || n.Running["c"].ID != "other" || n.Done["q"] != 1 {
		t.Errorf("%+v", n)
	}
	if n, fresh = r.Take(noon); fresh || n.Running != nil || n.Events != nil || n.Done != nil {
		t.Errorf("nothing happened, but %+v", n)
	}
}

// While nobody takes the news, it does not grow.
func TestRecorderIsBounded(t *testing.T) {
	var r top.Recorder
	for i := range 20_000 {
		r.Happened([]top.Event{{Type: "claimed", Queue: "q", ID: fmt.Sprint(i), Session: fmt.Sprint(i)}, {Type: "done", Queue: "q", ID: "x"}})
	}
	n, _ := r.Take(noon)
	if len(n.Events) > 100 || cap(n.Events) > 400 || len(n.Running) > 5000 || n.Done["q"] != 20_000 {
		t.Errorf("%d events (%d), %d running, %d done", len(n.Events), cap(n.Events), len(n.Running), n.Done["q"])
	}
}

// What etcd says of itself stays said until it changes.
func TestRecorderRemembersTrouble(t *testing.T) {
	var r top.Recorder
	r.Blind("no answer")
	r.Watching("broke")
	for range 2 {
		if n, _ := r.Take(noon); n.Blind != "no answer" || n.Unseen != "broke" {
			t.Errorf("%+v", n)
		}
	}
	r.Looked(top.Look{Revision: 3})
	r.Watching("")
	if n, fresh := r.Take(noon); n.Blind != "" || n.Unseen != "" || n.Look == nil || n.Rev != 3 || !fresh {
		t.Errorf("%+v", n)
	}
}

// However much happens, the screen is drawn twice a second; when nothing does, once.
func TestBurstsAreDrawnTogether(t *testing.T) {
	for _, test := range []struct {
		every time.Duration
		most  int
		least int
	}{{time.Millisecond, 20, 19}, {time.Hour, 11, 9}} {
		synctest.Test(t, func(t *testing.T) {
			var r top.Recorder
			sent, done := 0, 0
			ctx := t.Context()
			ended := make(chan struct{})
			stop := top.PaceForTest(ctx, &r, func(m tea.Msg) { sent++; done += m.(top.News).Done["q"] }, ended)
			began := time.Now()
			happened := 0
			for time.Since(began) < 10*time.Second {
				time.Sleep(min(test.every, 10*time.Second))
				happened++
				r.Happened([]top.Event{{Type: "done", Queue: "q", ID: "x"}})
			}
			stop()
			<-ended
			if sent > test.most || sent < test.least || test.every < time.Second && done < happened-600 {
				t.Errorf("every %v: %d drawings, %d of %d", test.every, sent, done, happened)
			}
		})
	}
}
