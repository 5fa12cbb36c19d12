package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The measures of a timeline's drawing.
const (
	lineWidth    px = 1080
	lineRight    px = 1064
	barHeight    px = 20
	barPitch     px = 24 // from one row of bars to the next
	claimRow     px = 10 // below the bars
	lanePad      px = 8
	markPitch    px = 17 // from one row of marks to the next
	markRows        = 6  // rows of marks above a lane at most
	nameRoom        = 130.0
	labelInset      = 6.0
	axisNameRoom px = 260
)

// timelineView is one trial, laid out.
type timelineView struct {
	ID, Scenario, Mode, Note, Desc, Summary string
	Height, Left, AxisY, TopY               px
	Ticks                                   []tick
	Lanes                                   []*laneView
	Moments                                 []momentView
	Links                                   []linkView
	EndX, EndTextX, FinishY                 px
	End, EndAnchor                          string
	Runs                                    []runRow
	Marks                                   []markRow
	Empty                                   bool
}

// laneView is one agent's row. Bars hang from BarY.
type laneView struct {
	Name, FullName          string
	Y, H, BarY, MidY, FootY px
	ShadeY, ShadeH          px
	Shades                  []shadeView
	Bars                    []barView
	Marks                   []markView
	Claims                  []markView

	marks []Mark
	spans []placedSpan
}

// placedSpan is a span with its end settled and its row found.
type placedSpan struct {
	Span
	end time.Duration
	row int
}

type barView struct {
	X, Y, W, H, TextX, TextY px
	Outcome                  outcomeLook
	Label, Title             string
}

// runRow and markRow are the drawing's content as tables.
type runRow struct{ Agent, Job, Start, End, Outcome, Note string }
type markRow struct{ At, Agent, Kind, Job, Note string }

// newTimelineView lays one trial out. Timelines that are to be compared share
// the range of time, so that the quicker one looks quicker.
func newTimelineView(position int, t Timeline, reach timeRange) *timelineView {
	view := &timelineView{
		ID: fmt.Sprintf("line%d", position+1), Scenario: t.Scenario, Mode: cmp.Or(t.Mode, "unnamed"), Note: t.Note,
	}
	own, over := rangeOf(t), overAt(t)
	lanes, global := lanesOf(t, own)
	view.Empty = len(lanes) == 0 && len(global) == 0
	widest := 40.0
	for _, lane := range lanes {
		lane.Name = shorten(lane.FullName, nameRoom)
		widest = max(widest, textWidth(lane.Name))
		view.Lanes = append(view.Lanes, lane)
	}
	view.Left = px(widest) + 22
	scale := newAxis(milliseconds(reach.from), milliseconds(reach.to), view.Left, lineRight)
	y := view.layMoments(global, scale)
	for _, lane := range view.Lanes {
		y = lane.lay(y, scale, own.to)
	}
	view.AxisY, view.Height = y, y+42
	view.Ticks = scale.ticks()
	view.linkTakeovers(scale)
	view.layEnd(over, scale)
	view.tabulate(t)
	view.Summary = summarizeRuns(lanes, over)
	view.Desc = fmt.Sprintf("Who ran which job when, %s. %s", countOf(len(lanes), "agent", "agents"), view.Summary)
	return view
}

// layEnd marks the moment at which the trial was over, with its label below the
// axis, clear of the axis' own name.
func (v *timelineView) layEnd(end time.Duration, scale axis) {
	v.EndX, v.End, v.EndAnchor = scale.at(milliseconds(end)), formatTime(end), "end"
	v.EndTextX, v.FinishY = v.EndX-6, v.AxisY+38
	if v.EndX < v.Left+axisNameRoom+130 {
		v.EndTextX, v.EndAnchor, v.FinishY = max(v.EndX+6, v.Left+axisNameRoom), "start", v.AxisY+5
	}
}

// timeRange is the part of a trial that is drawn.
type timeRange struct{ from, to time.Duration }

// rangeOf covers all spans and marks, and the trial's start.
func rangeOf(t Timeline) timeRange {
	var reach timeRange
	include := func(at time.Duration) { reach.from, reach.to = min(reach.from, at), max(reach.to, at) }
	for _, lane := range t.Lanes {
		for _, span := range lane.Spans {
			include(span.Start)
			include(span.End)
		}
	}
	for _, mark := range t.Marks {
		include(mark.At)
	}
	return reach
}

// overAt is when the last run ended. A lease that ran out later prolongs the
// drawing, but not the trial.
func overAt(t Timeline) time.Duration {
	var over time.Duration
	for _, lane := range t.Lanes {
		for _, span := range lane.Spans {
			if span.End < span.Start {
				return rangeOf(t).to
			}
			over = max(over, span.End)
		}
	}
	if over == 0 {
		return rangeOf(t).to
	}
	return over
}

// sharedRange covers all timelines of one scenario.
func sharedRange(all []Timeline, scenario string) timeRange {
	var reach timeRange
	for _, t := range all {
		if t.Scenario == scenario {
			own := rangeOf(t)
			reach.from, reach.to = min(reach.from, own.from), max(reach.to, own.to)
		}
	}
	return reach
}

// lanesOf sorts spans and marks by lane, and finds each span's row. Marks
// without an agent concern all.
func lanesOf(t Timeline, reach timeRange) (lanes []*laneView, global []Mark) {
	byAgent := map[string]*laneView{}
	laneOf := func(agent string) *laneView {
		if byAgent[agent] == nil {
			byAgent[agent] = &laneView{FullName: cmp.Or(agent, "unnamed")}
			lanes = append(lanes, byAgent[agent])
		}
		return byAgent[agent]
	}
	for _, lane := range t.Lanes {
		laneOf(lane.Agent).spans = append(laneOf(lane.Agent).spans, placeSpans(lane.Spans, reach)...)
	}
	for _, mark := range t.Marks {
		if mark.Agent == "" {
			global = append(global, mark)
			continue
		}
		laneOf(mark.Agent).marks = append(laneOf(mark.Agent).marks, mark)
	}
	for _, lane := range lanes {
		stackSpans(lane.spans)
		slices.SortStableFunc(lane.marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	}
	slices.SortStableFunc(global, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return lanes, global
}

// placeSpans settles the end of each span.
func placeSpans(spans []Span, reach timeRange) []placedSpan {
	placed := make([]placedSpan, 0, len(spans))
	for _, span := range spans {
		end := span.End
		if end < span.Start {
			end = reach.to
		}
		placed = append(placed, placedSpan{Span: span, end: end})
	}
	return placed
}

// stackSpans sorts by start and gives spans that overlap rows of their own.
func stackSpans(spans []placedSpan) {
	slices.SortStableFunc(spans, func(a, b placedSpan) int { return cmp.Compare(a.Start, b.Start) })
	var free []time.Duration
	for i := range spans {
		row := slices.IndexFunc(free, func(end time.Duration) bool { return end <= spans[i].Start })
		if row < 0 {
			row, free = len(free), append(free, 0)
		}
		free[row], spans[i].row = spans[i].end, row
	}
}

// lay places everything of the lane below y and returns where the next begins.
func (l *laneView) lay(y px, scale axis, trialEnd time.Duration) px {
	l.Y = y
	var strip []Mark
	for _, mark := range l.marks {
		if lookOf(mark.Kind).Claim {
			l.Claims = append(l.Claims, newMarkView(mark, scale))
			continue
		}
		strip = append(strip, mark)
	}
	marks, rows := packMarks(strip, scale)
	for i := range marks {
		marks[i].Y = y + lanePad + px(marks[i].row)*markPitch + markPitch/2
	}
	l.Marks = marks
	l.BarY = y + lanePad + px(rows)*markPitch + 2
	barRows := 1
	for _, span := range l.spans {
		barRows = max(barRows, span.row+1)
		l.Bars = append(l.Bars, newBarView(span, l.BarY, scale, l.FullName))
	}
	l.MidY = l.BarY + barHeight/2
	l.FootY = l.BarY + px(barRows)*barPitch
	l.ShadeY, l.ShadeH = l.BarY-4, l.FootY-l.BarY+4
	for i := range l.Claims {
		l.Claims[i].Y = l.FootY + 2
	}
	l.H = l.FootY + claimRow + lanePad - y
	l.Shades = shadesOf(l.marks, scale, trialEnd)
	return y + l.H
}

func newBarView(span placedSpan, top px, scale axis, agent string) barView {
	look := lookOfOutcome(span.Outcome)
	from, to := scale.at(milliseconds(span.Start)), scale.at(milliseconds(span.end))
	bar := barView{
		X: from, W: max(1.5, to-from-1), Y: top + px(span.row)*barPitch, H: barHeight, Outcome: look,
		Title: fmt.Sprintf("%s: job %s, %s to %s: %s", agent, span.Job, formatTime(span.Start), formatTime(span.end), look.Name),
	}
	if span.Note != "" {
		bar.Title += " (" + span.Note + ")"
	}
	if textWidth(span.Job)+labelInset <= float64(bar.W) {
		bar.Label = span.Job
	}
	bar.TextX, bar.TextY = bar.X+bar.W/2, bar.Y+bar.H/2+4
	return bar
}

// tabulate writes the drawing's content down, in order of time.
func (v *timelineView) tabulate(t Timeline) {
	var spans []placedSpan
	agents := map[int]string{}
	for i, lane := range v.Lanes {
		for _, span := range lane.spans {
			span.row = i
			spans = append(spans, span)
		}
		agents[i] = lane.FullName
	}
	slices.SortStableFunc(spans, func(a, b placedSpan) int { return cmp.Compare(a.Start, b.Start) })
	for _, span := range spans {
		v.Runs = append(v.Runs, runRow{
			Agent: agents[span.row], Job: span.Job, Start: number(span.Start), End: number(span.end),
			Outcome: lookOfOutcome(span.Outcome).Name, Note: span.Note,
		})
	}
	marks := slices.Clone(t.Marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	for _, mark := range marks {
		v.Marks = append(v.Marks, markRow{
			At: number(mark.At), Agent: cmp.Or(mark.Agent, "all"), Kind: lookOf(mark.Kind).Name, Job: mark.Job, Note: mark.Note,
		})
	}
}

// summarizeRuns counts the outcomes, in the legend's order.
func summarizeRuns(lanes []*laneView, over time.Duration) string {
	counts := map[string]int{}
	for _, lane := range lanes {
		for _, span := range lane.spans {
			counts[lookOfOutcome(span.Outcome).Name]++
		}
	}
	text := ""
	for _, look := range outcomeLooks {
		if n := counts[look.Name]; n > 0 {
			text += fmt.Sprintf("%d %s, ", n, look.Name)
		}
	}
	return text + "over after " + formatTime(over)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// number writes a time for a table whose head names the unit.
func number(d time.Duration) string { return formatNumber(roundTime(milliseconds(d))) }

func formatTime(d time.Duration) string { return number(d) + "\u00a0ms" }

// roundTime drops digits that nobody compares.
func roundTime(ms float64) float64 {
	if ms >= 100 || ms <= -100 {
		return float64(int64(ms + 0.5))
	}
	return float64(int64(ms*10+0.5)) / 10
}
