package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/queue"
)

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		now := time.UnixMilli(1_700_000_000_000 + int64(i)*7)
		id := job.NewID(now)
		if len(id) != 26 || strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || seen[id] {
			t.Fatalf("got %q", id)
		}
		if id <= last {
			t.Fatalf("%s does not come behind %s", id, last)
		}
		seen[id], last = true, id
	}
	// From the ULID specification's example time.
	if got := job.NewID(time.UnixMilli(1_469_918_176_385))[:10]; got != "01ARYZ6S41" {
		t.Errorf("got %s, want 01ARYZ6S41", got)
	}
}

func TestOutcomesOfHandlers(t *testing.T) {
	base := errors.New("base")
	for name, tc := range map[string]struct {
		err   error
		verb  job.Verb
		text  string
		delay time.Duration
		final bool
		base  bool
	}{
		"permanent":         {Permanent(base), job.VerbFail, "base", 0, true, true},
		"permanent, nil":    {Permanent(nil), job.VerbFail, "failed for good", 0, true, false},
		"wrapped":           {fmt.Errorf("on top: %w", Permanent(base)), job.VerbFail, "on top: base", 0, true, true},
		"retry after":       {RetryAfter(time.Minute, base), job.VerbFail, "base", time.Minute, false, true},
		"retry after, nil":  {RetryAfter(time.Minute, nil), job.VerbFail, "retry after 1m0s", time.Minute, false, false},
		"retry after, past": {RetryAfter(-1, base), job.VerbFail, "base", time.Millisecond, false, true},
		"snooze":            {Snooze(time.Hour), job.VerbSnooze, "snoozed for 1h0m0s", time.Hour, false, false},
		"cancel":            {Cancel(base), job.VerbCancel, "base", 0, false, true},
		"cancel, nil":       {Cancel(nil), job.VerbCancel, "cancelled by its handler", 0, false, false},
	} {
		var o *outcomeError
		if !errors.As(tc.err, &o) {
			t.Fatalf("%s: %T", name, tc.err)
		}
		if o.outcome != tc.verb || o.delay != tc.delay || o.final != tc.final || tc.err.Error() != tc.text || errors.Is(tc.err, base) != tc.base {
			t.Errorf("%s: got %+v, %q", name, o, tc.err)
		}
	}
	if !errors.Is(ErrAttemptTimeout, context.DeadlineExceeded) || errors.Is(ErrAttemptTimeout, context.Canceled) {
		t.Error("a timeout is not a deadline that was exceeded")
	}
}

func explode() { panic("boom") }

func TestPanicsBecomeErrors(t *testing.T) {
	_, err := call(t.Context(), HandlerFunc(func(context.Context, *Claim) ([]byte, error) { explode(); return nil, nil }), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "panic: boom\n") {
		t.Fatalf("got %v", err)
	}
	// The frames of the one who panicked come first, and survive the cut.
	_, stack, _ := strings.Cut(err.Error(), "\n")
	if !strings.HasPrefix(stack, "github.com/leasekit/leasekit/workqueue.explode(") || len(job.Shorten(err.Error(), job.MaxError)) != len(err.Error()) {
		t.Errorf("got %s", err)
	}
	huge := strings.Repeat("x", 1<<20)
	_, err = call(t.Context(), HandlerFunc(func(context.Context, *Claim) ([]byte, error) { panic(huge) }), nil)
	if short := job.Shorten(err.Error(), job.MaxError); !strings.Contains(short, "TestPanicsBecomeErrors") {
		t.Errorf("the stack is lost: %s", short)
	}
	_, err = call(t.Context(), HandlerFunc(func(context.Context, *Claim) ([]byte, error) {
		var c *Claim
		return c.job.Payload, nil
	}), nil)
	if err == nil || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v", err)
	}
}

func claimOf(kind string, payload []byte) *Claim {
	return &Claim{job: &Job{Kind: kind, Payload: payload}}
}

func TestMux(t *testing.T) {
	type in struct{ N int }
	m := NewMux()
	HandleJSON(m, "double", func(_ context.Context, _ *Claim, v in) (map[string]any, error) {
		return map[string]any{"n": 2 * v.N, "html": "<b>"}, nil
	})
	HandleJSON(m, "fails", func(context.Context, *Claim, in) (int, error) { return 0, errors.New("no") })
	HandleJSON(m, "unprintable", func(context.Context, *Claim, in) (func(), error) { return func() {}, nil })
	m.Register("", HandlerFunc(func(context.Context, *Claim) ([]byte, error) { return []byte("plain"), nil }))
	if got, want := m.Kinds(), []string{"", "double", "fails", "unprintable"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, tc := range []struct{ kind, payload, want, err string }{
		{"double", `{"N":21}`, `{"html":"<b>","n":42}`, ""},
		{"double", ``, `{"html":"<b>","n":0}`, ""},
		{"double", `{"N":"x"}`, "", "decode payload"},
		{"double", `nonsense`, "", "decode payload"},
		{"fails", `{}`, "", "no"},
		{"unprintable", `{}`, "", "encode result"},
		{"", ``, "plain", ""},
		{"other", ``, "", `no handler for kind "other"`},
	} {
		got, err := m.Handle(t.Context(), claimOf(tc.kind, []byte(tc.payload)))
		if string(got) != tc.want || (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s(%s): got %q, %v; want %q, %q", tc.kind, tc.payload, got, err, tc.want, tc.err)
		}
		var o *outcomeError
		if hopeless := strings.HasSuffix(tc.err, "payload") || strings.HasSuffix(tc.err, "result"); hopeless != (errors.As(err, &o) && o.final) {
			t.Errorf("%s(%s): permanent is not %v", tc.kind, tc.payload, hopeless)
		}
	}
	for name, f := range map[string]func(){
		"twice": func() { m.Register("", HandlerFunc(nil)) },
		"nil":   func() { m.Register("new", nil) },
		"no f":  func() { HandleJSON[int, int](m, "new", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: did not panic", name)
				}
			}()
			f()
		}()
	}
	var zero Mux
	zero.Register("k", HandlerFunc(nil))
}

func FuzzParams(f *testing.F) {
	f.Add("id", "kind", []byte("p"), "k", "v", int64(5), 1)
	f.Fuzz(func(t *testing.T, id, kind string, payload []byte, k, v string, timeout int64, dedup int) {
		p := Params{ID: id, Kind: kind, Payload: payload, Labels: map[string]string{k: v}, Timeout: time.Duration(timeout), Dedup: Dedup(dedup)}
		if err := p.validate(defaultMaxPayload); err != nil {
			if !errors.Is(err, coord.ErrInvalid) {
				t.Fatalf("got %v", err)
			}
			return
		}
		b, err := job.New(p.description(), 1, jobtest.Now).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := job.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		j := view(r, "q", job.InJobs, 1, jobtest.Now, queue.Nobody)
		if id != "" && j.ID != id || j.Kind != kind || j.Labels[k] != v || j.Timeout < p.Timeout || j.Timeout > p.Timeout+time.Millisecond {
			t.Errorf("%+v came back as %+v", p, j)
		}
	})
}
