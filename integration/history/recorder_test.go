package history_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

func openRecorder(t *testing.T, path, proc string) *history.Recorder {
	t.Helper()
	r, err := history.OpenRecorder(path, proc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilesOfProcessesMerge(t *testing.T) {
	dir := t.TempDir()
	shared, own := filepath.Join(dir, "shared"), filepath.Join(dir, "own")
	// Two processes append to one file, the third has its own and dies.
	a, b, c := openRecorder(t, shared, "a"), openRecorder(t, shared, "b"), openRecorder(t, own, "c")
	first := a.Begin(t.Context(), history.Op{Verb: history.Enqueue, Queue: "q", ID: "1"})
	b.Begin(t.Context(), history.Op{Verb: history.Enqueue, Queue: "q", ID: "2"}).End(coord.ErrUnknown, nil)
	first.End(nil, func(op *history.Op) { op.Revision = 7 })
	c.Begin(t.Context(), history.Op{Verb: history.Complete, Queue: "q", ID: "1", Token: 5})
	end := a.Work(history.Work{Queue: "q", ID: "1", Token: 5})
	b.Work(history.Work{Queue: "q", ID: "1", Token: 6})
	end()
	a.Mark(history.Killed, "c")
	for range 3 {
		a.Reached().Hit("x")
		b.Reached().Hit("x")
	}
	c.Reached().Hit("y")
	for _, r := range []*history.Recorder{a, b} {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(own, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"op":{"n":9,"ve`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()

	l, err := history.ReadLog(shared, own)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, op := range l.Ops {
		got = append(got, fmt.Sprint(op.Proc, " ", op.ID, " ", op.Result, " ", op.Revision, " ", op.Return == history.Never))
	}
	if want := []string{"a 1 applied 7 false", "b 2 unknown 0 false", "c 1 unknown 0 true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(l.Works) != 2 || l.Works[0].End == history.Never || l.Works[1].End != history.Never {
		t.Errorf("got %+v", l.Works)
	}
	if l.Reached["x"] != 6 || l.Reached["y"] != 1 || len(l.Marks) != 1 {
		t.Errorf("got %v and %v", l.Reached, l.Marks)
	}
	if got := l.Missing("y", "z", "x"); !slices.Equal(got, []string{"z"}) {
		t.Errorf("missing: got %v", got)
	}
	_ = c.Close()
}

func TestFilesThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if _, err := history.ReadLog(path); err == nil {
		t.Error("a file that is not there is read")
	}
	for _, text := range []string{"{\n{}\n", "nonsense\n", "{}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := history.ReadLog(path); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: got %v, want an error that names the line", text, err)
		}
	}
	if _, err := history.OpenRecorder(t.TempDir(), "p"); err == nil {
		t.Error("a directory is opened as a record")
	}
}

func TestCallsKnowWhenTheirContextEnds(t *testing.T) {
	r := history.NewRecorder("p")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	call := r.Begin(ctx, history.Op{Verb: history.Enqueue, Queue: "q", ID: "1"})
	far := r.Log().Ops[0].Deadline
	if left := time.Duration(far - history.Now()); left < 50*time.Minute || left > time.Hour {
		t.Errorf("the deadline is in %v, want an hour", left)
	}
	cancel()
	call.End(context.Canceled, nil)
	r.Begin(t.Context(), history.Op{Verb: history.Enqueue, Queue: "q", ID: "2"}).End(nil, nil)
	if ops := r.Log().Ops; ops[0].Deadline > far || ops[1].Deadline != 0 || ops[0].Result != history.NotApplied {
		t.Errorf("got %+v", ops)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err    error
		result history.Result
		why    history.Why
	}{
		{nil, history.Applied, ""},
		{fmt.Errorf("x: %w", coord.ErrUnknown), history.Unknown, ""},
		{errors.Join(coord.ErrUnknown, coord.ErrFenced), history.Unknown, ""},
		{&coord.FencedError{}, history.Refused, history.Fenced},
		{&workqueue.ExistsError{Job: &workqueue.Job{}}, history.Refused, history.Exists},
		{workqueue.ErrNotFound, history.Refused, history.NotFound},
		{workqueue.ErrNotApplicable, history.Refused, history.NotApplicable},
		{workqueue.ErrConflict, history.Refused, history.Conflict},
		{workqueue.ErrCancelled, history.Refused, history.Fenced},
		{workqueue.ErrSettled, history.NotApplied, ""},
		{context.Canceled, history.NotApplied, ""},
	} {
		if result, why := history.Judge(c.err); result != c.result || why != c.why {
			t.Errorf("%v: got %s %q, want %s %q", c.err, result, why, c.result, c.why)
		}
	}
}
