package report

import (
	"math"
	"strconv"
	"strings"
)

// maxMagnitude bounds what is drawn. Beyond it a number is no measurement, and
// float64 has no room left between two neighbours.
const maxMagnitude = 1e15

// px is a length in a drawing's own units. It is written with one decimal:
// more would only make the file longer.
type px float64

func (v px) String() string {
	return strconv.FormatFloat(math.Round(float64(v)*10)/10, 'f', -1, 64)
}

// axis maps values from [lo, hi] onto [from, to] of a drawing.
type axis struct {
	lo, hi   float64
	from, to px
	whole    bool // label whole numbers only
}

// newAxis needs finite bounds. A range without an extent gets one, so that a
// position exists for every value.
func newAxis(lo, hi float64, from, to px) axis {
	if !(hi > lo) {
		hi = lo + math.Max(1, math.Abs(lo)*0.1)
	}
	return axis{lo: lo, hi: hi, from: from, to: to}
}

// at is where v lies, values outside the range on its nearer end.
func (a axis) at(v float64) px {
	share := (v - a.lo) / (a.hi - a.lo)
	return a.from + px(math.Max(0, math.Min(1, share)))*(a.to-a.from)
}

// tick is one labelled position on an axis.
type tick struct {
	X     px
	Label string
}

// ticks labels the axis at round values, as many as fit side by side.
func (a axis) ticks() []tick {
	step := niceStep(a.hi-a.lo, 12)
	widest := math.Max(textWidth(formatAt(a.lo, step)), textWidth(formatAt(a.hi, step)))
	room := int(float64(a.to-a.from) / (widest + 30))
	step = niceStep(a.hi-a.lo, max(1, min(room, 12)))
	if a.whole {
		step = math.Max(1, step)
	}
	first, last := math.Ceil(a.lo/step-1e-9), math.Floor(a.hi/step+1e-9)
	var ticks []tick
	for n := first; n <= last; n++ {
		ticks = append(ticks, tick{X: a.at(n * step), Label: formatAt(n*step, step)})
	}
	return ticks
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that cuts extent
// into at most pieces.
func niceStep(extent float64, pieces int) float64 {
	least := extent / float64(pieces)
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// formatNumber writes a measured number for people: as many digits as anybody
// compares (1.84, 650.2, 4712), thousands apart from 10 000 on, and powers of
// ten where digits would no longer be read.
func formatNumber(v float64) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return notMeasured
	case size >= 1e12 || size != 0 && size < 0.005:
		return minus(strconv.FormatFloat(v, 'g', 3, 64))
	case size >= 1000:
		return formatAt(v, 1)
	case size >= 100:
		return formatAt(v, 0.1)
	}
	return formatAt(v, 0.01)
}

// formatAt writes a number to the precision of step, without zeros at its end.
func formatAt(v, step float64) string {
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	text := strconv.FormatFloat(v, 'f', min(decimals, 12), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	if len(text) > 15 {
		text = strconv.FormatFloat(v, 'g', 4, 64)
	}
	return minus(groupThousands(text))
}

// minus replaces the hyphen, which is too short beside digits.
func minus(text string) string { return strings.ReplaceAll(text, "-", "\u2212") }

// groupThousands sets whole parts of five digits and more apart with narrow
// spaces that do not break.
func groupThousands(text string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	whole, decimals, _ := strings.Cut(text, ".")
	if decimals != "" {
		decimals = "." + decimals
	}
	if len(whole) < 5 || strings.ContainsAny(whole, "e") {
		return sign + whole + decimals
	}
	var grouped strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			grouped.WriteRune('\u202f')
		}
		grouped.WriteRune(digit)
	}
	return sign + grouped.String() + decimals
}

// textWidth estimates generously how wide a label is drawn, since nobody can
// measure it before a browser has chosen a font.
func textWidth(text string) float64 {
	width := 0.0
	for _, r := range text {
		switch {
		case r >= 0x1100: // may be a full-width script
			width += 12
		case strings.ContainsRune("iljtfr.,:;'|!() ", r):
			width += 4.2
		case strings.ContainsRune("mwMW@", r) || 'A' <= r && r <= 'Z':
			width += 9.2
		default:
			width += 6.6
		}
	}
	return width
}

// shorten cuts a label so that it fits into room.
func shorten(text string, room float64) string {
	if textWidth(text) <= room {
		return text
	}
	width := textWidth("\u2026")
	for i, r := range text {
		width += textWidth(string(r))
		if width > room {
			return text[:i] + "\u2026"
		}
	}
	return text
}
