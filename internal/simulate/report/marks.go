package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcomeLook is how an outcome is drawn and named. Class selects the colours,
// Pattern is what tells it apart without them.
type outcomeLook struct {
	Name, Class, Pattern, About string
}

// outcomeLooks holds one look per outcome, in the legend's order; the last one
// serves outcomes that nobody told this package about.
var outcomeLooks = []outcomeLook{
	{Name: string(Saved), Class: "saved", About: "its result is the job's result"},
	{Name: string(Duplicate), Class: "duplicate", Pattern: "stripes", About: "accepted a second time"},
	{Name: string(Refused), Class: "refused", Pattern: "grid", About: "came too late and was turned away"},
	{Name: string(Lost), Class: "lost", Pattern: "dots", About: "never reached its end"},
	{Name: string(Running), Class: "running", Pattern: "chevrons", About: "still going when the trial ended"},
	{Name: "unknown", Class: "running", Pattern: "chevrons"},
}

func lookOfOutcome(outcome Outcome) outcomeLook {
	i := slices.IndexFunc(outcomeLooks, func(look outcomeLook) bool { return look.Name == string(outcome) })
	if i < 0 {
		i = len(outcomeLooks) - 1
	}
	return outcomeLooks[i]
}

// kindLook is how a mark is drawn and named. Shape is a path around 0,0.
type kindLook struct {
	Kind         Kind
	Name, Class  string
	Shape, About string
	Claim        bool // drawn small below the bars: there is one per run
	Until        Kind // shades the lane up to the next mark of this kind
	Shade        string
}

// kindLooks holds one look per kind, in the legend's order; the last one serves
// kinds that nobody told this package about.
var kindLooks = []kindLook{
	{Kind: Claim, Name: "claim", Class: "quiet", Shape: "M0-3.5 4 3.5H-4Z", Claim: true, About: "a job was claimed or assigned"},
	{Kind: Crash, Name: "crash", Class: "bad", Shape: "M-5-3-3-5 0-2 3-5 5-3 2 0 5 3 3 5 0 2-3 5-5 3-2 0Z", Shade: "dead", About: "the agent died without a farewell"},
	{Kind: LeaseEnd, Name: "lease end", Class: "time", Shape: "M-5-5.5H5L1 0 5 5.5H-5L-1 0Z", About: "the store gave the agent up"},
	{Kind: Takeover, Name: "takeover", Class: "good", Shape: "M0-6 6 0 0 6-6 0Z", About: "an abandoned job was taken over"},
	{Kind: Freeze, Name: "freeze", Class: "time", Shape: "M-5-5H-1.5V5H-5ZM1.5-5H5V5H1.5Z", Until: Wake, Shade: "frozen", About: "the agent stopped, still alive"},
	{Kind: Wake, Name: "wake", Class: "good", Shape: "M-4-5.5 6 0-4 5.5Z", About: "the frozen agent went on"},
	{Kind: Partition, Name: "partition", Class: "bad", Shape: "M-6-1.5H-3V-5H-1V5H-3V1.5H-6ZM6-1.5H3V-5H1V5H3V1.5H6Z", Until: Heal, Shade: "cutoff", About: "the agent was cut off from etcd"},
	{Kind: Heal, Name: "heal", Class: "good", Shape: "M-1.7-5.5H1.7V-1.7H5.5V1.7H1.7V5.5H-1.7V1.7H-5.5V-1.7H-1.7Z", About: "the agent reached etcd again"},
	{Kind: Refusal, Name: "refused", Class: "refusal", Shape: "M-2.5-6H2.5L6-2.5V2.5L2.5 6H-2.5L-6 2.5V-2.5ZM-3.5-1.2V1.2H3.5V-1.2Z", About: "a late result was turned away"},
	{Kind: Leader, Name: "leader", Class: "time", Shape: "M-6 4.5V-4L-2.5-.5 0-5.5 2.5-.5 6-4V4.5Z", About: "the agent became the dispatcher"},
	{Name: "mark", Class: "quiet", Shape: "M-4-4H4V4H-4Z"},
}

func lookOf(kind Kind) kindLook {
	for _, look := range kindLooks {
		if look.Kind == kind && kind != "" {
			return look
		}
	}
	other := kindLooks[len(kindLooks)-1]
	if kind != "" {
		other.Name = string(kind)
	}
	return other
}

// markView is one shape with its label. Left out labels are empty.
type markView struct {
	X, Y, TextX   px
	Anchor, Label string
	Title         string
	Look          kindLook

	row int
}

func newMarkView(mark Mark, scale axis) markView {
	look := lookOf(mark.Kind)
	view := markView{X: scale.at(milliseconds(mark.At)), Look: look, Label: look.Name, Anchor: "start"}
	if mark.Job != "" {
		view.Label += " " + mark.Job
	}
	view.Title = view.Label + " at " + formatTime(mark.At)
	if mark.Agent != "" {
		view.Title = mark.Agent + ": " + view.Title
	}
	if mark.Note != "" {
		view.Title += " (" + mark.Note + ")"
	}
	view.Label = shorten(view.Label, 140)
	return view
}

// packMarks gives marks, sorted by time, rows in which no label touches the
// next. When the rows are used up, labels are left out; the shape stays, and
// its tooltip says all. It returns how many rows are used.
func packMarks(marks []Mark, scale axis) (views []markView, rows int) {
	var taken []px
	for _, mark := range marks {
		view := newMarkView(mark, scale)
		width := px(textWidth(view.Label))
		from, to := view.X-8, view.X+10+width
		view.TextX = view.X + 10
		if to > lineWidth-2 {
			from, to = view.X-10-width, view.X+8
			view.TextX, view.Anchor = view.X-10, "end"
		}
		view.row = firstFree(taken, from)
		switch {
		case view.row < len(taken):
		case len(taken) < markRows:
			taken = append(taken, 0)
		default:
			view.row, view.Label, to = len(taken)-1, "", max(taken[len(taken)-1], view.X+8)
		}
		taken[view.row] = to + 6
		views = append(views, view)
	}
	return views, len(taken)
}

// firstFree finds the first row that is free from x on.
func firstFree(taken []px, x px) int {
	if row := slices.IndexFunc(taken, func(until px) bool { return until <= x }); row >= 0 {
		return row
	}
	return len(taken)
}

// shadeView is a stretch during which an agent was not itself.
type shadeView struct {
	X, W         px
	Class, Title string
}

// shadesOf pairs what begins with what ends it; the rest lasts to the end.
func shadesOf(marks []Mark, scale axis, trialEnd time.Duration) []shadeView {
	var shades []shadeView
	for i, mark := range marks {
		look := lookOf(mark.Kind)
		if look.Shade == "" {
			continue
		}
		end := trialEnd
		for _, later := range marks[i+1:] {
			if look.Until != "" && later.Kind == look.Until {
				end = later.At
				break
			}
		}
		from, to := scale.at(milliseconds(mark.At)), scale.at(milliseconds(end))
		shades = append(shades, shadeView{
			X: from, W: max(0, to-from), Class: look.Shade,
			Title: fmt.Sprintf("%s from %s to %s", look.Name, formatTime(mark.At), formatTime(end)),
		})
	}
	return shades
}

// momentView is a mark that concerns all agents.
type momentView struct {
	markView
	Bottom px
}

// layMoments places the marks that concern all above the first lane and returns
// where that begins.
func (v *timelineView) layMoments(global []Mark, scale axis) px {
	marks, rows := packMarks(global, scale)
	for _, mark := range marks {
		mark.Y = 4 + px(mark.row)*markPitch + markPitch/2
		v.Moments = append(v.Moments, momentView{markView: mark})
	}
	v.TopY = 4 + px(rows)*markPitch
	return v.TopY
}

// linkView joins an abandoned run with the moment at which it was taken over.
type linkView struct {
	Path, Title string
}

// linkTakeovers draws from where a run broke off, along its own lane while the
// lease still held, to the lane of the agent that took its job over.
func (v *timelineView) linkTakeovers(scale axis) {
	for _, lane := range v.Lanes {
		for _, mark := range lane.marks {
			if mark.Kind != Takeover || mark.Job == "" {
				continue
			}
			from, span := v.abandonedRun(mark, lane)
			if from == nil {
				continue
			}
			x, left := scale.at(milliseconds(mark.At)), scale.at(milliseconds(min(span.end, mark.At)))
			startY := from.BarY + px(span.row)*barPitch + barHeight/2
			targetY, side := lane.BarY-1, barHeight/2+1
			if lane.Y < from.Y {
				targetY, side = lane.FootY-barPitch+barHeight+1, -side
			}
			if span.end > mark.At {
				startY += side // leave a bar that is still there at its edge
			}
			var path strings.Builder
			fmt.Fprintf(&path, "M%s %sH%sV%s", left, startY, x, targetY)
			v.Links = append(v.Links, linkView{
				Path:  path.String(),
				Title: fmt.Sprintf("job %s: from %s to %s", mark.Job, from.FullName, lane.FullName),
			})
		}
	}
}

// abandonedRun finds the run that a takeover continues: the latest of the same
// job by somebody else that did not finish it.
func (v *timelineView) abandonedRun(takeover Mark, by *laneView) (*laneView, placedSpan) {
	var lane *laneView
	var run placedSpan
	for _, candidate := range v.Lanes {
		for _, span := range candidate.spans {
			finished := span.Outcome == Saved || span.Outcome == Duplicate
			if candidate == by || finished || span.Job != takeover.Job || span.Start > takeover.At {
				continue
			}
			if lane == nil || span.Start > run.Start {
				lane, run = candidate, span
			}
		}
	}
	return lane, run
}
