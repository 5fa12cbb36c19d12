package report

import (
	"math"
	"slices"
	"testing"
)

func TestFormatNumber(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {math.Copysign(0, -1), "0"}, {15, "15"}, {16.32, "16.32"}, {2.1, "2.1"}, {0.004, "0.004"}, {-0.004, "\u22120.004"},
		{0.0049999, "0.005"}, {650.24, "650.2"}, {999.96, "1000"}, {3027.4, "3027"}, {9999.4, "9999"}, {12345.6, "12\u202f346"},
		{-1234567, "\u22121\u202f234\u202f567"}, {1e12, "1e+12"}, {math.MaxFloat64, "1.8e+308"},
		{math.NaN(), notMeasured}, {math.Inf(-1), notMeasured},
	} {
		if got := formatNumber(c.v); got != c.want {
			t.Errorf("formatNumber(%g) = %q, want %q", c.v, got, c.want)
		}
	}
}

func TestSummarize(t *testing.T) {
	s := summarize([]float64{4, math.NaN(), 1, 3, math.Inf(1), 2, 5})
	if s.n != 5 || s.leftOut != 2 {
		t.Fatalf("n %d, left out %d, want 5 and 2", s.n, s.leftOut)
	}
	got := []float64{s.min, s.p5, s.p25, s.p50, s.p75, s.p95, s.max, s.mean}
	want := []float64{1, 1.2, 2, 3, 4, 4.8, 5, 3}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Errorf("statistics = %v, want %v", got, want)
			break
		}
	}
	if !s.whole {
		t.Error("whole numbers are not seen as such")
	}
	if one := summarize([]float64{7}); one.p5 != 7 || one.p95 != 7 {
		t.Errorf("percentiles of one sample = %v", one)
	}
}

func TestBinsHoldEverySampleOnce(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		count   int
	}{
		{[]float64{0, 0, 0}, 1},
		{[]float64{0, 1, 2, 20}, 21},
		{[]float64{0, 1000}, 21},
		{[]float64{0.5, 0.5}, 1},
		{[]float64{0.1, 0.2, 0.3}, 21},
	} {
		s := summarize(c.samples)
		b := newBins(s.min, s.max, s.whole, distPieces)
		if b.count != c.count {
			t.Errorf("%v: %d classes, want %d: %+v", c.samples, b.count, c.count, b)
		}
		total := 0
		for _, n := range b.fill(s.sorted) {
			total += n
		}
		if total != s.n || b.start > s.min || b.end() < s.max {
			t.Errorf("%v: classes %+v hold %d of %d samples", c.samples, b, total, s.n)
		}
	}
}

func TestTicksAreRoundAndInside(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		whole  bool
		want   []string
	}{
		{0, 4148, false, []string{"0", "500", "1000", "1500", "2000", "2500", "3000", "3500", "4000"}},
		{-0.5, 2.5, true, []string{"0", "1", "2"}},
		{0, 0, false, []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"}},
	} {
		scale := newAxis(c.lo, c.hi, 60, 1060)
		scale.whole = c.whole
		var got []string
		for _, tick := range scale.ticks() {
			got = append(got, tick.Label)
			if tick.X < 60 || tick.X > 1060 {
				t.Errorf("tick %q at %v is off the axis", tick.Label, tick.X)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("ticks of %g to %g = %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
}

func TestShortenKeepsWholeRunes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"agent-1", "agent-1"}, {"worker-17.example.internal", "worker-1…"}, {"作業員一号二号三号四号", "作業員一…"}, {"", ""},
	} {
		if got := shorten(c.text, 65); got != c.want {
			t.Errorf("shorten(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// A seam of time is no overlap; a moment of it is.
func TestStackSpans(t *testing.T) {
	spans := []placedSpan{
		{Span: Span{Job: "c", Start: 15}, end: 30}, {Span: Span{Job: "a", Start: 0}, end: 10},
		{Span: Span{Job: "b", Start: 10}, end: 20}, {Span: Span{Job: "d", Start: 20}, end: 25},
	}
	stackSpans(spans)
	var got []int
	for _, span := range spans {
		got = append(got, span.row)
	}
	if want := []int{0, 0, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("rows in order of time = %v, want %v", got, want)
	}
}
