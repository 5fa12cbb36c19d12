package report

import (
	"math"
	"slices"
)

// summary describes one series. Its numbers are meaningless when n is 0.
type summary struct {
	n, leftOut                  int
	min, p5, p25, p50, p75, p95 float64
	max, mean                   float64
	sorted                      []float64
	whole                       bool // every sample is a whole number
}

// summarize sorts a copy of the samples and leaves out what is no measurement.
func summarize(samples []float64) summary {
	var s summary
	for _, v := range samples {
		if measurable(v) {
			s.sorted = append(s.sorted, v)
		}
	}
	s.n, s.leftOut = len(s.sorted), len(samples)-len(s.sorted)
	if s.n == 0 {
		return s
	}
	slices.Sort(s.sorted)
	s.min, s.max = s.sorted[0], s.sorted[s.n-1]
	s.p5, s.p25, s.p50 = s.quantile(0.05), s.quantile(0.25), s.quantile(0.50)
	s.p75, s.p95 = s.quantile(0.75), s.quantile(0.95)
	s.whole = true
	for _, v := range s.sorted {
		s.mean += v / float64(s.n)
		s.whole = s.whole && v == math.Trunc(v)
	}
	return s
}

// quantile interpolates between the two samples around the place q, 0 to 1.
func (s summary) quantile(q float64) float64 {
	place := q * float64(s.n-1)
	below := int(place)
	above := min(below+1, s.n-1)
	return s.sorted[below] + (s.sorted[above]-s.sorted[below])*(place-float64(below))
}

// measurable tells whether a number can be drawn.
func measurable(v float64) bool {
	return !math.IsNaN(v) && math.Abs(v) <= maxMagnitude
}

// bins cut an axis into classes of equal width.
type bins struct {
	start, width float64
	count        int
	whole        bool // of whole numbers
}

// newBins cuts [lo, hi] into at most about pieces classes. Whole numbers get a
// class each while they are few, so that a bar stands at its number; everything
// else is cut at round values.
func newBins(lo, hi float64, whole bool, pieces int) bins {
	if whole {
		lo, hi = math.Floor(lo), math.Ceil(hi)
		if hi-lo <= float64(pieces) {
			return bins{start: lo - 0.5, width: 1, count: int(hi-lo) + 1, whole: true}
		}
	}
	// An extent that vanishes beside the numbers would cut below their precision.
	extent := max(hi-lo, 1e-6*math.Abs(lo), 1e-6*math.Abs(hi), 1e-6)
	width := niceStep(extent, pieces)
	start := math.Floor(lo/width+1e-9) * width
	return bins{start: start, width: width, count: int(math.Floor((hi-start)/width+1e-9)) + 1, whole: whole && width >= 1}
}

// end is where the last class ends.
func (b bins) end() float64 { return b.start + b.width*float64(b.count) }

// fill counts samples by class. What lies outside goes into the nearest class:
// callers keep outliers away.
func (b bins) fill(samples []float64) []int {
	counts := make([]int, b.count)
	for _, v := range samples {
		class := int(math.Floor((v-b.start)/b.width + 1e-9))
		counts[max(0, min(class, b.count-1))]++
	}
	return counts
}
