package report

import "time"

// Page is everything that the report shows, in the order in which it shows it.
// Every text is plain text: Render escapes it. Empty fields and empty slices
// leave their section out; the zero Page renders as a page that says that
// nothing was measured.
type Page struct {
	// Title heads the page and names the browser's tab.
	Title string
	// Lead is one or two sentences below the title: what was run, what came out.
	Lead string
	// Settings are shown as given: the seed, the versions, the time scale.
	Settings []Setting
	// Checks are the promises that the run had to keep.
	Checks []Check
	// Published is the footnote of the published figures: whose they are, and of
	// what clock. Empty shows none.
	Published string
	// Scenarios describe the scenarios by name. Those without a description
	// here are shown under their name alone.
	Scenarios []Scenario
	// Measures are what Results report, in reading order.
	Measures []Measure
	// Headline is the name of the measure that is shown large at the top, for
	// the modes of the first result's scenario. Empty shows none.
	Headline string
	// Results hold one entry per scenario and mode. They are grouped by scenario
	// in order of first appearance.
	Results []Result
	// Timelines show one trial each.
	Timelines []Timeline
	// Distributions show one measure each over all trials.
	Distributions []Distribution
}

// Setting is one thing that has to be known to run the same again.
type Setting struct {
	Name  string // "seed"
	Value string // "1"
}

// Check is one promise and whether this run kept it.
type Check struct {
	// Claim says what had to hold, as a sentence.
	Claim string
	// Held tells whether it held.
	Held bool
	// Found is what was seen, for example "0 of 100 trials".
	Found string
}

// Scenario explains one scenario to somebody who meets it for the first time.
type Scenario struct {
	// Name is what Result.Scenario and Timeline.Scenario refer to.
	Name string
	// About is one or two sentences.
	About string
}

// Measure is one figure that is reported for every scenario and mode.
type Measure struct {
	// Name is short: "jobs finished more than once".
	Name string
	// Unit follows the number: "per trial", "ms". Empty for plain counts.
	Unit string
	// Help is an optional half sentence on how it is counted.
	Help string
}

// Result is what one mode did in one scenario.
type Result struct {
	Scenario string // groups results into one table
	Mode     string // heads the column
	// Trials is how many trials the figures are taken over.
	Trials int
	// Figures belong to Page.Measures by position. Missing ones count as not
	// measured, surplus ones are not shown.
	Figures []Figure
}

// Figure is one measured number beside the published one. The zero Figure says
// that the measure does not apply.
type Figure struct {
	// Ours is what this run measured; nil when it does not apply. NaN and the
	// infinities are shown as not measured.
	Ours *float64
	// Published is the published figure; nil when none was published.
	Published *float64
	// Note stands beside the number, or in its place when both are nil:
	// "only by chance".
	Note string
}

// Timeline is one trial: who ran which job when. All times count from the
// trial's start, in the time that the reader is to see: the caller has divided
// them by the time scale.
type Timeline struct {
	Scenario string // timelines of one scenario share their scale
	Mode     string // heads the drawing
	// Note is one sentence on what to look at, or empty.
	Note string
	// Lanes are the agents, from top to bottom.
	Lanes []Lane
	// Marks are the moments, in any order. A mark whose Agent has no lane gets
	// one; a mark without an Agent concerns all and is drawn across all lanes.
	Marks []Mark
}

// Lane is one agent's row in a timeline.
type Lane struct {
	// Agent names the lane. Two lanes of one name are drawn as one.
	Agent string
	// Spans are the runs of jobs, in any order. Where two overlap in time, the
	// lane grows higher.
	Spans []Span
}

// Span is one run of one job by one agent.
type Span struct {
	// Job is the label in the bar; a short one ("7") fits into more bars.
	Job string
	// Start is when the run began.
	Start time.Duration
	// End is when the run ended. A span that ends before it starts is drawn to
	// the end of the timeline: nobody saw it end.
	End time.Duration
	// Outcome is how it ended.
	Outcome Outcome
	// Note is an optional remark for the tooltip.
	Note string
}

// Outcome is how a run ended. Each has its own colour and its own pattern.
type Outcome string

// The outcomes of a run.
const (
	// Saved: the run's result is the job's result.
	Saved Outcome = "saved"
	// Duplicate: the result was accepted although the job had one already.
	Duplicate Outcome = "duplicate"
	// Refused: the run reached its end and its result was turned away.
	Refused Outcome = "refused"
	// Lost: the run never reached its end: its agent crashed or gave up.
	Lost Outcome = "lost"
	// Running: the run was still going when the trial ended.
	Running Outcome = "running"
)

// Mark is one moment in a timeline.
type Mark struct {
	At    time.Duration // since the trial's start
	Agent string        // whom it concerns; empty for all
	Kind  Kind          // what happened
	// Job is the job concerned, or empty. A Takeover with a job is joined by a
	// line with the run that it continues.
	Job string
	// Note is an optional remark for the tooltip.
	Note string
}

// Kind is what happened at a mark. Each has its own shape.
type Kind string

// The kinds of marks. Crash shades its lane to the end; Freeze shades it up to
// the agent's next Wake, Partition up to the agent's next Heal.
const (
	Claim     Kind = "claim"     // a job was claimed or assigned
	LeaseEnd  Kind = "leaseEnd"  // the agent's lease ran out
	Crash     Kind = "crash"     // the agent died, without a farewell
	Freeze    Kind = "freeze"    // the agent stopped, still alive
	Wake      Kind = "wake"      // the frozen agent went on
	Refusal   Kind = "refused"   // a late result was turned away
	Takeover  Kind = "takeover"  // an abandoned job was taken over
	Partition Kind = "partition" // the agent was cut off from etcd
	Heal      Kind = "heal"      // the agent reached etcd again
	Leader    Kind = "leader"    // the agent became the dispatcher
)

// Distribution is one measure over all trials, with a row per mode on one axis.
type Distribution struct {
	// Name is the measure: "wall time".
	Name string
	// Unit names the axis: "ms", "jobs per trial".
	Unit string
	// Note is one sentence, or empty.
	Note string
	// Series are the modes, from top to bottom.
	Series []Series
}

// Series is one mode's samples.
type Series struct {
	// Mode names the row.
	Mode string
	// Samples may be in any order and are not changed. NaN and the infinities
	// are left out and counted.
	Samples []float64
	// Published is the published figure, marked on the axis; nil when none was.
	Published *float64
}
