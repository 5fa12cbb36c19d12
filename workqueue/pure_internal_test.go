package workqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
)

func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		b    Backoff
		n    int
		dice float64
		want time.Duration
	}{
		{Backoff{}, 1, 0.5, time.Second},
		{Backoff{}, 2, 0.5, 2 * time.Second},
		{Backoff{}, 4, 0.5, 8 * time.Second},
		{Backoff{}, 1, 0, 800 * time.Millisecond},
		{Backoff{}, 11, 0.5, 10 * time.Minute},
		{Backoff{}, math.MaxInt, 0.5, 10 * time.Minute},
		{Backoff{}, 0, 0.5, time.Second},
		{Backoff{}, -5, 0.5, time.Second},
		{Backoff{Jitter: -1}, 3, 0.99, 4 * time.Second},
		{Backoff{Jitter: 7}, 1, 0, 0},
		{Backoff{Initial: time.Minute, Max: time.Second}, 1, 0.5, time.Second},
		{Backoff{Factor: 1}, math.MaxInt, 0.5, time.Second},
		{Backoff{Factor: 1.5, Initial: 2 * time.Second}, 3, 0.5, 4500 * time.Millisecond},
		{Backoff{Factor: math.NaN(), Jitter: math.NaN()}, 2, 0.5, 2 * time.Second},
		{Backoff{Factor: math.Inf(1)}, 2, 0.5, 10 * time.Minute},
		{Backoff{Max: math.MaxInt64}, 100, 0.99, math.MaxInt64},
		{Backoff{Max: math.MaxInt64, Jitter: 1}, 100, math.Inf(-1), math.MaxInt64},
		{Backoff{}, 1, math.NaN(), time.Second},
		{Backoff{Jitter: 1}, 1, 1e300, time.Second},
	} {
		if got := tc.b.After(tc.n, tc.dice); got != tc.want {
			t.Errorf("%+v after %d, dice %v: got %s, want %s", tc.b, tc.n, tc.dice, got, tc.want)
		}
	}
	for n := 1; n < 20; n++ {
		middle := Backoff{}.After(n, 0.5)
		for range 100 {
			got := Backoff{}.After(n, rand.Float64())
			if got < middle*8/10 || got > middle*12/10 {
				t.Fatalf("after %d: %s is not within a fifth of %s", n, got, middle)
			}
		}
	}
}

func TestBackoffValidates(t *testing.T) {
	for _, b := range []Backoff{{Initial: -1}, {Max: -1}, {Factor: 0.5}, {Factor: -1}, {Factor: math.NaN()}, {Jitter: 1.1}, {Jitter: math.NaN()}} {
		if err := b.validate(); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%+v: got %v", b, err)
		}
	}
	for _, b := range []Backoff{{}, {Initial: 1, Max: 1, Factor: 1, Jitter: 1}, {Jitter: -1}} {
		if err := b.validate(); err != nil {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

func anyRank(dice *rand.Rand, step int) rank {
	return rank{dice.IntN(5) - 2, int64(dice.IntN(40)), uint64(dice.IntN(3)), fmt.Sprint(step)}
}

func byRank(a, b rank) int {
	if a.before(b) {
		return -1
	}
	return 1
}

// The skip list against a sorted slice.
func TestReadyListKeepsTheOrder(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	var l readyList
	var model []rank
	for step := range 4000 {
		if len(model) > 0 && dice.IntN(5) < 2 {
			i := dice.IntN(len(model))
			l.remove(model[i])
			model = slices.Delete(model, i, i+1)
		} else {
			r := anyRank(dice, step)
			l.insert(r, &entry{rank: r})
			model = append(model, r)
			slices.SortFunc(model, byRank)
		}
		l.remove(rank{id: "no such job"})
		if step%50 != 0 {
			continue
		}
		var got []rank
		for e := range l.all() {
			got = append(got, e.rank)
		}
		if !slices.Equal(got, model) || l.len != len(model) {
			t.Fatalf("step %d: got %d jobs (%d), want %d: %v, want %v", step, len(got), l.len, len(model), got, model)
		}
	}
	for range l.all() {
		break
	}
}

func TestRankIsTheQueuesOrder(t *testing.T) {
	inOrder := []rank{{5, 9, 9, "z"}, {5, 10, 0, "a"}, {0, 1, 2, "z"}, {0, 1, 3, "a"}, {0, 1, 3, "b"}, {0, 2, 0, "a"}, {-1, 1, 0, "a"}}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := a.before(b); got != (i < j) {
				t.Errorf("%v before %v: got %v", a, b, got)
			}
		}
	}
}

// Rendezvous hashing: every process gets its share of names that differ little,
// and a process that leaves moves only its own share.
func TestRendezvousSpreads(t *testing.T) {
	best := func(id string, peers []string) (at string) {
		for _, p := range peers {
			if at == "" || mix(hash64(id)^hash64(p)) > mix(hash64(id)^hash64(at)) {
				at = p
			}
		}
		return at
	}
	peers := []string{"host.0000000000000001", "host.0000000000000002", "host.0000000000000003", "host.0000000000000004"}
	share := map[string]int{}
	const jobs = 4000
	for i := range jobs {
		id := fmt.Sprintf("job-%d", i)
		at := best(id, peers)
		share[at]++
		if less := best(id, peers[:3]); at != peers[3] && less != at {
			t.Fatalf("%s moved from %s to %s when another left", id, at, less)
		}
	}
	for _, p := range peers {
		if n := share[p]; n < jobs/4*8/10 || n > jobs/4*12/10 {
			t.Errorf("%s gets %d of %d", p, n, jobs)
		}
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		now := time.UnixMilli(1_700_000_000_000 + int64(i)*7)
		id := newID(now)
		if len(id) != 26 || strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || seen[id] {
			t.Fatalf("got %q", id)
		}
		if id <= last {
			t.Fatalf("%s does not come behind %s", id, last)
		}
		seen[id], last = true, id
	}
	// From the ULID specification's example time.
	if got := newID(time.UnixMilli(1_469_918_176_385))[:10]; got != "01ARYZ6S41" {
		t.Errorf("got %s, want 01ARYZ6S41", got)
	}
}

func TestOutcomesOfHandlers(t *testing.T) {
	base := errors.New("base")
	for name, tc := range map[string]struct {
		err   error
		verb  verb
		text  string
		delay time.Duration
		final bool
		base  bool
	}{
		"permanent":         {Permanent(base), verbFail, "base", 0, true, true},
		"permanent, nil":    {Permanent(nil), verbFail, "failed for good", 0, true, false},
		"wrapped":           {fmt.Errorf("on top: %w", Permanent(base)), verbFail, "on top: base", 0, true, true},
		"retry after":       {RetryAfter(time.Minute, base), verbFail, "base", time.Minute, false, true},
		"retry after, nil":  {RetryAfter(time.Minute, nil), verbFail, "retry after 1m0s", time.Minute, false, false},
		"retry after, past": {RetryAfter(-1, base), verbFail, "base", time.Millisecond, false, true},
		"snooze":            {Snooze(time.Hour), verbSnooze, "snoozed for 1h0m0s", time.Hour, false, false},
		"cancel":            {Cancel(base), verbCancel, "base", 0, false, true},
		"cancel, nil":       {Cancel(nil), verbCancel, "cancelled by its handler", 0, false, false},
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
	if !strings.HasPrefix(stack, "github.com/leasekit/leasekit/workqueue.explode(") || len(shorten(err.Error(), maxError)) != len(err.Error()) {
		t.Errorf("got %s", err)
	}
	huge := strings.Repeat("x", 1<<20)
	_, err = call(t.Context(), HandlerFunc(func(context.Context, *Claim) ([]byte, error) { panic(huge) }), nil)
	if short := shorten(err.Error(), maxError); !strings.Contains(short, "TestPanicsBecomeErrors") {
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

// Whatever is accepted at the API fits into one Txn, to its end.
func TestTheLargestJobFits(t *testing.T) {
	worst := strings.Repeat("\x01", maxLabelText) // six bytes each in JSON
	labels := map[string]string{}
	for i := range maxLabels {
		labels[strings.Repeat("<", 190)+fmt.Sprint(100+i)] = worst
	}
	p := Params{ID: strings.Repeat("/", 200), Payload: make([]byte, inlineLimit), Labels: labels, Trace: labels}
	if err := p.validate(defaultMaxPayload); err != nil {
		t.Fatal(err)
	}
	r := newRecord(p, 1, testNow)
	for range 3 * logLimit {
		r.log(Attempt{Outcome: outcomeFailed, Owner: strings.Repeat("%2F", 200), Error: strings.Repeat("\x01", maxError), Actor: worst, Reason: worst})
	}
	for name, unit := range map[string]string{"bytes": "\x00", "text of quotes": `"`, "text of separators": "\u2028\n"} {
		r.setResult(bytes.Repeat([]byte(unit), MaxResult/len(unit)))
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		// The rest of 1 MiB is the caller's, who completes with writes of its own.
		if len(b) > 900<<10 {
			t.Errorf("%s: the largest record has %d bytes", name, len(b))
		}
	}
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
		b, err := newRecord(p, 1, testNow).encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := decodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		j := r.view("q", inJobs, 1, testNow, nobody)
		if id != "" && j.ID != id || j.Kind != kind || j.Labels[k] != v || j.Timeout < p.Timeout || j.Timeout > p.Timeout+time.Millisecond {
			t.Errorf("%+v came back as %+v", p, j)
		}
	})
}

func TestStaggerFollowsTheTimeOfAClaim(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 25 * time.Millisecond, 5 * time.Millisecond: 25 * time.Millisecond,
		40 * time.Millisecond: 120 * time.Millisecond, time.Minute: 500 * time.Millisecond,
	} {
		if got := stagger(took); got != want {
			t.Errorf("a claim takes %v: got %v, want %v", took, got, want)
		}
	}
}

// An import hands over what travels in one Txn, however long its lines are, and leaves
// none out.
func TestImportsTravelInFlights(t *testing.T) {
	lines := func(n, size int) [][]byte { return slices.Repeat([][]byte{make([]byte, size)}, n) }
	for _, tc := range []struct {
		lines [][]byte
		want  int
	}{
		{lines(1, 10), 1}, {lines(40, 10), 40}, {lines(41, 10), 40}, {lines(1000, 10), 40},
		{lines(3, 256<<10), 2}, {lines(3, 900<<10), 1}, {append(lines(1, 10), lines(2, 900<<10)...), 1},
	} {
		if got := inOneFlight(tc.lines); got != tc.want {
			t.Errorf("%d lines of %d bytes: %d at a time, want %d", len(tc.lines), len(tc.lines[0]), got, tc.want)
		}
	}
}
