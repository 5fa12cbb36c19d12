package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
)

//go:embed page.gohtml
var pageSource string

//go:embed picture.gohtml
var pictureSource string

// drawingStyle is how drawings look, on a page and by themselves; styleSource is the rest
// of the page.
//
//go:embed drawing.css
var drawingStyle string

//go:embed style.css
var styleSource string

// Both are parsed once; executing them is safe for concurrent use.
var (
	page    = template.Must(template.New("page").Parse(pageSource))
	picture = template.Must(template.Must(page.Clone()).New("picture").Parse(pictureSource))
)

// pageView is what the template sees: text and positions, no decisions.
type pageView struct {
	Style         template.CSS
	Title, Lead   string
	Settings      []Setting
	Checks        []Check
	Kept, Broken  int
	Headline      Measure
	Tiles         []tileView
	Scenarios     []scenarioView
	Published     string
	Timelines     []*timelineView
	Outcomes      []outcomeLook
	Kinds         []kindLook
	Distributions []distributionView
	StatNames     []string
	Nothing       bool
}

// Render writes p as one self-contained HTML document. It does not change p.
// Data that makes no sense (NaN, spans that end before they start, figures
// without a measure) is shown as such and is no error; the only errors are
// those of w, after which part of the document may have been written.
func Render(w io.Writer, p Page) error {
	if err := page.Execute(w, newPageView(p)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func newPageView(p Page) pageView {
	view := pageView{
		Style: template.CSS(drawingStyle + styleSource), Title: p.Title, Lead: p.Lead,
		Settings: p.Settings, Checks: p.Checks, Scenarios: scenarioViews(p), Published: p.Published, StatNames: statNames,
	}
	if view.Title == "" {
		view.Title = "Race report"
	}
	for _, check := range p.Checks {
		if check.Held {
			view.Kept++
		}
	}
	view.Broken = len(p.Checks) - view.Kept
	view.Headline, view.Tiles = headlineOf(p)
	for i, t := range p.Timelines {
		view.Timelines = append(view.Timelines, newTimelineView(i, t, sharedRange(p.Timelines, t.Scenario)))
	}
	view.Outcomes, view.Kinds = legendOf(p.Timelines)
	for i, d := range p.Distributions {
		view.Distributions = append(view.Distributions, newDistributionView(i, d))
	}
	view.Nothing = len(p.Results) == 0 && len(p.Timelines) == 0 && len(p.Distributions) == 0
	return view
}

// legendOf explains only what the timelines show.
func legendOf(timelines []Timeline) (outcomes []outcomeLook, kinds []kindLook) {
	seenOutcomes, seenKinds := map[string]bool{}, map[string]bool{}
	for _, t := range timelines {
		for _, lane := range t.Lanes {
			for _, span := range lane.Spans {
				seenOutcomes[lookOfOutcome(span.Outcome).Name] = true
			}
		}
		for _, mark := range t.Marks {
			seenKinds[lookOf(mark.Kind).Shape] = true
		}
	}
	outcomes = slices.DeleteFunc(slices.Clone(outcomeLooks), func(look outcomeLook) bool { return !seenOutcomes[look.Name] })
	kinds = slices.DeleteFunc(slices.Clone(kindLooks), func(look kindLook) bool { return !seenKinds[look.Shape] })
	return outcomes, kinds
}
