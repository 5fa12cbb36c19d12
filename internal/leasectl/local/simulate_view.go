package local

import (
	"fmt"
	"strconv"

	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/simulate"
)

// simulateRow is one line of the table: a result, or what was published for one.
type simulateRow struct {
	scenario, mode, source, trials                 string
	dupTrials, duplicated, extra, unfinished       string
	crashed, takeover, claim, alone, requests      string
	lostRaces, lateRefused, lateAccepted, wall, of string
}

var simulateView = output.View[simulateRow]{Columns: []output.Column[simulateRow]{
	{Head: "SCENARIO", Cell: func(r simulateRow) string { return r.scenario }},
	{Head: "MODE", Cell: func(r simulateRow) string { return r.mode }},
	{Head: "SOURCE", Cell: func(r simulateRow) string { return r.source }},
	{Head: "TRIALS", Cell: func(r simulateRow) string { return r.trials }},
	{Head: "WITH-DUPLICATES", Cell: func(r simulateRow) string { return r.dupTrials }},
	{Head: "DUPLICATED", Cell: func(r simulateRow) string { return r.duplicated }},
	{Head: "EXTRA-RUNS", Cell: func(r simulateRow) string { return r.extra }},
	{Head: "UNFINISHED", Cell: func(r simulateRow) string { return r.unfinished }},
	{Head: "CRASHED-JOB-AFTER", Cell: func(r simulateRow) string { return r.crashed }},
	{Head: "TAKEOVER-AFTER-LEASE", Cell: func(r simulateRow) string { return r.takeover }},
	{Head: "CLAIM", Cell: func(r simulateRow) string { return r.claim }},
	{Head: "CLAIM-ALONE", Cell: func(r simulateRow) string { return r.alone }},
	{Head: "REQUESTS", Cell: func(r simulateRow) string { return r.requests }},
	{Head: "LOST-RACES", Cell: func(r simulateRow) string { return r.lostRaces }},
	{Head: "LATE-REFUSED", Cell: func(r simulateRow) string { return r.lateRefused }},
	{Head: "LATE-ACCEPTED", Cell: func(r simulateRow) string { return r.lateAccepted }},
	{Head: "WALL", Cell: func(r simulateRow) string { return r.wall }},
	{Head: "DETAILS", Cell: func(r simulateRow) string { return r.of }},
}}

// simulateRows lists the results, each with what was published for it below.
func simulateRows(r *simulate.Report) []simulateRow {
	var rows []simulateRow
	for _, res := range r.Results {
		rows = append(rows, measuredRow(res))
		if p, ok := r.Published(res.Scenario, res.Mode); ok {
			rows = append(rows, publishedRow(res, p))
		}
	}
	return rows
}

func measuredRow(r simulate.Result) simulateRow {
	crashed := msCell(r.CrashedJobFinishedAfter)
	if r.Mode == simulate.Naive && crashed != "" {
		crashed = "by chance, " + crashed // nobody takes it over: somebody had begun it too
	}
	return simulateRow{
		scenario: r.Scenario, mode: string(r.Mode), source: "measured", trials: strconv.Itoa(r.Trials),
		dupTrials: percent(r.WithDuplicates()), duplicated: perTrial(&r.DuplicatedJobs), extra: perTrial(&r.ExtraRuns),
		unfinished: perTrial(&r.Unfinished), crashed: crashed, takeover: msCell(r.TakeoverAfterLeaseEnd), claim: claimCell(&r.ClaimMS),
		alone: claimCell(r.ClaimAloneMS), requests: fmt.Sprintf("%.1f/%.1f/%.1f", r.Reads, r.Heartbeats, r.Writes),
		lostRaces: perTrial(&r.LostRaces), lateRefused: perTrial(&r.LateRefused), lateAccepted: strconv.Itoa(r.LateAccepted),
		wall: msCell(&r.WallMS), of: r.DetailText(),
	}
}

func publishedRow(r simulate.Result, p simulate.Published) simulateRow {
	crashed := msCell(p.CrashedJobFinishedAfter)
	if p.Note != "" {
		crashed = p.Note
	}
	trials := ""
	if p.TrialsWithDuplicates != nil {
		trials = percent(*p.TrialsWithDuplicates)
	}
	return simulateRow{
		scenario: r.Scenario, mode: string(r.Mode), source: "published", trials: strconv.Itoa(p.Trials),
		dupTrials: trials, duplicated: perTrial(p.DuplicatedJobs), extra: perTrial(p.ExtraRuns),
		unfinished: perTrial(p.Unfinished), crashed: crashed, alone: claimCell(p.ClaimMS),
		lostRaces: perTrial(p.LostRaces), lateRefused: perTrial(p.LateRefused), wall: msCell(p.WallMS),
	}
}

// perTrial, msCell and claimCell show a figure, and nothing where there is none.
func perTrial(x *float64) string { return figureCell(x, 2, "") }

func msCell(x *float64) string { return figureCell(x, 0, "ms") }

func claimCell(x *float64) string { return figureCell(x, 2, "ms") }

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) + "%" }

func figureCell(x *float64, digits int, unit string) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', digits, 64) + unit
}
