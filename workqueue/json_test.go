package workqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

const large = "3889108265204450030" // more digits than a float64 keeps

// Numbers keep their digits on the whole way, wherever their type is open.
func TestNumbersSurviveJSON(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	mux := workqueue.NewMux()
	workqueue.HandleJSON(mux, "map", func(_ context.Context, _ *workqueue.Claim, in map[string]any) (map[string]any, error) { return in, nil })
	workqueue.HandleJSON(mux, "any", func(_ context.Context, _ *workqueue.Claim, in any) (any, error) { return in, nil })
	workqueue.HandleJSON(mux, "nested", func(_ context.Context, _ *workqueue.Claim, in struct{ Rows []any }) (any, error) { return in.Rows, nil })
	workqueue.HandleJSON(mux, "typed", func(_ context.Context, _ *workqueue.Claim, in struct{ ID int64 }) (int64, error) { return in.ID, nil })
	runHandler(t, q, workqueue.WorkerConfig{}, mux)
	for kind, payload := range map[string]string{
		"map": `{"id":` + large + `}`, "any": large, "nested": `{"Rows":[` + large + `,1e400]}`, "typed": `{"ID":` + large + `}`,
	} {
		enqueue(t, q, workqueue.Params{ID: kind, Kind: kind, Payload: []byte(payload)})
		out, err := workqueue.WaitJSON[any](bounded(t), q, kind)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(out); err != nil || !strings.Contains(string(text), large) {
			t.Errorf("%s: %s came back as %s, %v", kind, payload, text, err)
		}
	}
}

// What WaitJSON returns when there is no result to decode.
func TestWaitJSONTellsWhyThereIsNoResult(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.dead(workqueue.Params{ID: "dead"})
	d.done(workqueue.Params{ID: "none"}, "")
	d.done(workqueue.Params{ID: "text"}, "plain text")
	d.done(workqueue.Params{ID: "two"}, "1 2")
	d.add(workqueue.Params{ID: "cancelled"})
	if _, err := d.q.Cancel(bounded(t), "cancelled", workqueue.By{Actor: "ann", Reason: "pointless"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct {
		text string
		is   []error
	}{
		"dead":      {"hopeless", []error{workqueue.ErrNotApplicable}},
		"cancelled": {"pointless", []error{workqueue.ErrNotApplicable, workqueue.ErrCancelled}},
		"text":      {"result of job text of q: decode", nil},
		"two":       {"something follows", nil},
		"missing":   {"missing", []error{workqueue.ErrNotFound}},
	} {
		out, err := workqueue.WaitJSON[int](bounded(t), d.q, id)
		if err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: got %v, %v; want %q in the error", id, out, err, want.text)
		}
		for _, target := range []error{workqueue.ErrNotApplicable, workqueue.ErrCancelled, workqueue.ErrNotFound} {
			wanted := false
			for _, is := range want.is {
				wanted = wanted || is == target
			}
			if errors.Is(err, target) != wanted {
				t.Errorf("%s: that %v is %v: %v", id, err, target, !wanted)
			}
		}
	}
	if out, err := workqueue.WaitJSON[[]int](bounded(t), d.q, "none"); err != nil || out != nil {
		t.Errorf("without a result: got %v, %v", out, err)
	}
}

// What cannot be encoded, or must not be enqueued, is refused before anything is written.
func TestEnqueueJSONRefuses(t *testing.T) {
	d := newDesk(t, workqueue.Config{MaxPayload: 100})
	before := d.revision()
	for name, act := range map[string]func() error{
		"encode payload: json: unsupported value": func() error { _, err := workqueue.EnqueueJSON(bounded(t), d.q, "k", math.Inf(1)); return err },
		"encode payload: panic: marshal":          func() error { _, err := workqueue.EnqueueJSON(bounded(t), d.q, "k", greeting{}); return err },
		`invalid payload "102 bytes"`: func() error {
			_, err := workqueue.EnqueueJSON(bounded(t), d.q, "k", strings.Repeat("x", 100))
			return err
		},
		"invalid kind": func() error { _, err := workqueue.EnqueueJSON(bounded(t), d.q, "k\x00", 1); return err },
	} {
		if err := act(); err == nil || !strings.Contains(err.Error(), name) || strings.HasPrefix(name, "invalid") != errors.Is(err, coord.ErrInvalid) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	if after := d.revision(); after != before {
		t.Errorf("something was written: revision %d, then %d", before, after)
	}
	j, err := workqueue.EnqueueJSON(bounded(t), d.q, "k", map[string]string{"html": "<b>"})
	if err != nil || j.Kind != "k" || string(get(t, d.q, j.ID).Payload) != `{"html":"<b>"}` {
		t.Errorf("got %+v, %v", j, err)
	}
}
