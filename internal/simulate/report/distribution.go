package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The measures of a distribution's drawing.
const (
	distWidth  px = 540
	distLeft   px = 14
	distRight  px = 526
	distHead   px = 30 // a row's line of text, and the published figure's mark
	distBars   px = 44 // its histogram
	distBox    px = 18 // its box and whisker
	distGap    px = 16
	distPieces    = 34
	// outlierFactor: samples this many times beyond where nearly all of their
	// series lie would squeeze everything else to the left edge.
	outlierFactor = 3
)

// distributionView is one drawing with a row per mode, and its table.
type distributionView struct {
	ID, Name, Unit, Note, Desc string
	Height, AxisY              px
	Ticks                      []tick
	Rows                       []seriesView
	LeftOut                    string
}

// seriesView is one mode's row. X positions are measured, Y positions follow.
type seriesView struct {
	Mode, ShortMode, Count           string
	TextY, BarsY, BaseY, BoxY, BoxHi px
	Bars                             []binView
	HasBox                           bool
	P5, P25, P50, P95, BoxTop, BoxW  px
	Published                        *publishedView
	Beyond                           string
	Stats                            []string
}

type binView struct {
	X, Y, W, H px
	Title      string
}

type publishedView struct {
	X, TextX px
	Anchor   string
	Label    string
}

// statNames heads the columns of Stats.
var statNames = []string{"n", "min", "p25", "median", "p75", "p95", "max", "mean", "published"}

func newDistributionView(position int, d Distribution) distributionView {
	view := distributionView{ID: fmt.Sprintf("dist%d", position+1), Name: d.Name, Unit: d.Unit, Note: d.Note}
	summaries := make([]summary, len(d.Series))
	leftOut := 0
	for i, series := range d.Series {
		summaries[i] = summarize(series.Samples)
		leftOut += summaries[i].leftOut
	}
	if leftOut > 0 {
		view.LeftOut = "Left out: " + countOf(leftOut, "sample that is no number", "samples that are no numbers") + "."
	}
	classes := classesFor(d.Series, summaries)
	scale := newAxis(classes.start, classes.end(), distLeft, distRight)
	scale.whole = classes.whole
	y := px(6)
	for i, series := range d.Series {
		view.Rows = append(view.Rows, newSeriesView(series, summaries[i], classes, scale, d.Unit, y))
		y += distHead + distBars + distBox + distGap
	}
	view.AxisY, view.Height = y, y+40
	view.Ticks = scale.ticks()
	view.Desc = describeDistribution(view)
	return view
}

// classesFor finds classes that hold all samples and published figures of all
// series, without outliers.
func classesFor(all []Series, summaries []summary) bins {
	lo, hi, far, whole, any := 0.0, 0.0, 0.0, true, false
	include := func(least, most, top float64) {
		if !any {
			lo, hi, far = least, most, top
		}
		lo, hi, far, any = min(lo, least), max(hi, most), max(far, top), true
	}
	for i, s := range summaries {
		if s.n > 0 {
			include(s.min, s.max, s.quantile(0.98))
			whole = whole && s.whole
		}
		if published := all[i].Published; published != nil && measurable(*published) {
			include(*published, *published, *published)
		}
	}
	if far > 0 && hi > far*outlierFactor {
		hi = far * 1.25
	}
	if lo > 0 && lo < 0.35*hi {
		lo = 0
	}
	return newBins(lo, hi, whole, distPieces)
}

func newSeriesView(series Series, s summary, classes bins, scale axis, unit string, y px) seriesView {
	row := seriesView{
		Mode: cmp.Or(series.Mode, "unnamed"), Count: "no samples",
		TextY: y + 12, BarsY: y + distHead, BaseY: y + distHead + distBars,
		BoxY: y + distHead + distBars + distBox/2 + 1, BoxHi: y + distHead + distBars + distBox,
	}
	row.Published = newPublishedView(series.Published, scale)
	row.Stats = statCells(s, series.Published)
	if s.n > 0 {
		row.Count = fmt.Sprintf("n %s · median %s", groupThousands(strconv.Itoa(s.n)), formatNumber(s.p50))
	}
	room := float64(distRight-distLeft) - textWidth(row.Count) - 30
	if row.Published != nil {
		room -= textWidth(row.Published.Label)
	}
	// The name is bold, which is wider than what textWidth knows of.
	row.ShortMode = shorten(row.Mode, room/1.15)
	if s.n == 0 {
		return row
	}
	row.HasBox = true
	row.P5, row.P25, row.P50 = scale.at(s.p5), scale.at(s.p25), scale.at(s.p50)
	row.P95, row.BoxTop = scale.at(s.p95), row.BoxY-4
	row.BoxW = max(2, scale.at(s.p75)-row.P25)
	within := s.sorted
	for len(within) > 0 && within[len(within)-1] > classes.end() {
		within = within[:len(within)-1]
	}
	if beyond := s.n - len(within); beyond > 0 {
		row.Beyond = fmt.Sprintf("%d more beyond, up to %s", beyond, formatNumber(s.max))
	}
	row.Bars = binViews(classes, classes.fill(within), scale, row, unit)
	return row
}

// binViews draws every class that holds something, the fullest as high as the
// row allows.
func binViews(classes bins, counts []int, scale axis, row seriesView, unit string) []binView {
	fullest := max(1, slices.Max(counts))
	var bars []binView
	for class, count := range counts {
		if count == 0 {
			continue
		}
		from := classes.start + classes.width*float64(class)
		left, right := scale.at(from), scale.at(from+classes.width)
		height := max(2, (distBars-2)*px(count)/px(fullest))
		bars = append(bars, binView{
			X: left + 0.5, W: max(1, min(right-left-1, 40)), Y: row.BaseY - height, H: height,
			Title: fmt.Sprintf("%s: %s: %s", row.Mode, classes.label(class, unit), countOf(count, "sample", "samples")),
		})
		// A wide class keeps its bar slim, and in its middle.
		bar := &bars[len(bars)-1]
		bar.X += (right - left - 1 - bar.W) / 2
	}
	return bars
}

// label says in words what a class holds.
func (b bins) label(class int, unit string) string {
	from := b.start + b.width*float64(class)
	if b.width == 1 && from != math.Trunc(from) {
		return joinUnit(formatAt(from+0.5, 1), unit)
	}
	return joinUnit(formatAt(from, b.width)+" to "+formatAt(from+b.width, b.width), unit)
}

func newPublishedView(published *float64, scale axis) *publishedView {
	if published == nil || !measurable(*published) {
		return nil
	}
	return &publishedView{X: scale.at(*published), TextX: distRight, Anchor: "end", Label: "published " + formatNumber(*published)}
}

func statCells(s summary, published *float64) []string {
	cells := []string{groupThousands(strconv.Itoa(s.n))}
	for _, v := range []float64{s.min, s.p25, s.p50, s.p75, s.p95, s.max, s.mean} {
		if s.n == 0 {
			cells = append(cells, "\u2013")
			continue
		}
		cells = append(cells, formatNumber(v))
	}
	if published == nil {
		return append(cells, "\u2013")
	}
	return append(cells, formatNumber(*published))
}

func describeDistribution(view distributionView) string {
	text := "A histogram with a box per mode."
	for _, row := range view.Rows {
		text += " " + row.Mode + ": " + row.Count + "."
	}
	return text
}

func joinUnit(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}
