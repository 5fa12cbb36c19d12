package report

import (
	"math"
	"slices"
	"strconv"
)

// notMeasured stands where a number would.
const notMeasured = "not measured"

// scenarioView is one table: a row per measure, a column per mode.
type scenarioView struct {
	Name, About string
	// Compared tells that a published figure exists, so that every mode has a
	// second column for it.
	Compared bool
	Modes    []modeView
	Rows     []measureView
}

type modeView struct {
	Name   string
	Trials string
}

type measureView struct {
	Name, Unit, Help string
	Cells            []cellView
}

// cellView is one figure. An empty Ours says that the measure does not apply.
type cellView struct {
	Ours, Published, Note string
}

// tileView is one mode's headline.
type tileView struct {
	Mode, Number, Published, Note string
}

// scenarioViews groups the results by scenario, in order of first appearance.
// How a measure is counted is said where it appears first.
func scenarioViews(p Page) []scenarioView {
	var names []string
	grouped := map[string][]Result{}
	for _, result := range p.Results {
		if !slices.Contains(names, result.Scenario) {
			names = append(names, result.Scenario)
		}
		grouped[result.Scenario] = append(grouped[result.Scenario], result)
	}
	var views []scenarioView
	explained := map[string]bool{}
	for _, name := range names {
		view := newScenarioView(name, p, grouped[name])
		for i, row := range view.Rows {
			if explained[row.Name] {
				view.Rows[i].Help = ""
			}
			explained[row.Name] = true
		}
		views = append(views, view)
	}
	return views
}

func newScenarioView(name string, p Page, results []Result) scenarioView {
	view := scenarioView{Name: name, About: aboutScenario(p.Scenarios, name)}
	for _, result := range results {
		view.Modes = append(view.Modes, modeView{Name: result.Mode, Trials: countOf(result.Trials, "trial", "trials")})
	}
	for position, measure := range p.Measures {
		row := measureView{Name: measure.Name, Unit: measure.Unit, Help: measure.Help}
		applies := false
		for _, result := range results {
			figure := figureAt(result, position)
			applies = applies || figure != (Figure{})
			view.Compared = view.Compared || figure.Published != nil
			row.Cells = append(row.Cells, newCellView(figure))
		}
		if applies {
			view.Rows = append(view.Rows, row)
		}
	}
	return view
}

func aboutScenario(scenarios []Scenario, name string) string {
	for _, scenario := range scenarios {
		if scenario.Name == name {
			return scenario.About
		}
	}
	return ""
}

func figureAt(result Result, position int) Figure {
	if position < len(result.Figures) {
		return result.Figures[position]
	}
	return Figure{}
}

func newCellView(figure Figure) cellView {
	cell := cellView{Note: figure.Note}
	if figure.Ours != nil {
		cell.Ours = formatNumber(*figure.Ours)
	}
	if figure.Published != nil {
		cell.Published = formatNumber(*figure.Published)
	}
	return cell
}

// headlineOf picks the headline measure out of the first scenario that has it.
func headlineOf(p Page) (measure Measure, tiles []tileView) {
	position := slices.IndexFunc(p.Measures, func(m Measure) bool { return m.Name == p.Headline })
	if p.Headline == "" || position < 0 || len(p.Results) == 0 {
		return Measure{}, nil
	}
	for _, result := range p.Results {
		figure := figureAt(result, position)
		if result.Scenario != p.Results[0].Scenario || figure.Ours == nil || math.IsNaN(*figure.Ours) {
			continue
		}
		cell := newCellView(figure)
		tiles = append(tiles, tileView{Mode: result.Mode, Number: cell.Ours, Published: cell.Published, Note: cell.Note})
	}
	return p.Measures[position], tiles
}

// countOf writes a number with its noun.
func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return groupThousands(strconv.Itoa(n)) + " " + many
}
