package report_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, p report.Page) string {
	t.Helper()
	var out strings.Builder
	if err := report.Render(&out, p); err != nil {
		t.Fatalf("Render: %v", err)
	}
	return out.String()
}

// wantAll reports the texts that a document lacks.
func wantAll(t *testing.T, document string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(document, text) {
			t.Errorf("the document lacks %q", text)
		}
	}
}

// smallPage has one of everything, small enough to read as a golden file.
func smallPage() report.Page {
	ms := time.Millisecond
	return report.Page{
		Title: "Race", Lead: "One trial.", Headline: "duplicates",
		Settings:  []report.Setting{{Name: "seed", Value: "1"}},
		Checks:    []report.Check{{Claim: "no duplicates", Held: true, Found: "0"}, {Claim: "no refusals", Found: "1"}},
		Published: "In virtual time.",
		Scenarios: []report.Scenario{{Name: "freeze", About: "An agent pauses."}},
		Measures:  []report.Measure{{Name: "duplicates", Unit: "per trial", Help: "counted once a job"}, {Name: "nowhere"}},
		Results: []report.Result{{Scenario: "freeze", Mode: "claim", Trials: 1,
			Figures: []report.Figure{{Ours: new(0.0), Published: new(15.5), Note: "of 3"}}}},
		Timelines: []report.Timeline{{Scenario: "freeze", Mode: "claim",
			Lanes: []report.Lane{
				{Agent: "a1", Spans: []report.Span{{Job: "1", Start: 0, End: 900 * ms, Outcome: report.Refused, Note: "token 3"}}},
				{Agent: "a2", Spans: []report.Span{{Job: "1", Start: 600 * ms, End: 1000 * ms, Outcome: report.Saved}}}},
			Marks: []report.Mark{
				{At: 700 * ms, Agent: "a1", Kind: report.Wake}, {At: 50 * ms, Agent: "a1", Kind: report.Freeze},
				{At: 550 * ms, Agent: "a1", Kind: report.LeaseEnd}, {At: 600 * ms, Agent: "a2", Kind: report.Takeover, Job: "1"},
				{At: 900 * ms, Agent: "a1", Kind: report.Refusal, Job: "1"}, {At: 600 * ms, Agent: "a2", Kind: report.Claim, Job: "1"}}}},
		Distributions: []report.Distribution{{Name: "wall time", Unit: "ms",
			Series: []report.Series{{Mode: "claim", Samples: []float64{3, 1, 2}, Published: new(2.5)}}}},
	}
}

// The golden file holds the body: what changes in it is to be looked at, with
// a browser, and then rewritten with -update.
func TestSmallPageGolden(t *testing.T) {
	_, body, found := strings.Cut(render(t, smallPage()), "<header")
	if !found {
		t.Fatal("the document has no header")
	}
	golden := filepath.Join("testdata", "small.golden.html")
	if *update {
		if err := os.WriteFile(golden, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(body, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("line %d differs\n got %s\nwant %s\n(rewrite with -update)", i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("got %d lines, want %d (rewrite with -update)", len(gotLines), len(wantLines))
	}
}

func TestPageShowsItsContent(t *testing.T) {
	document := render(t, examplePage(1))
	wantAll(t, document,
		"<title>Three ways to share work</title>", "<summary>3 of 4 held</summary>", `<b>15.42</b>`, `<td class="num pub">16.32</td>`,
		"only by chance", "12\u202f346", "Timeline of dispatch, base", "agent-2: job ", "takeover", "lease end",
		"Distribution of wall time", "2 more beyond, up to 41.5", "<dt>etcd</dt><dd>3.7.3</dd>",
		"prefers-color-scheme: dark", "@media print")
	for _, section := range []string{`id="checks"`, `id="results"`, `id="timelines"`, `id="distributions"`, `id="settings"`} {
		wantAll(t, document, section)
	}
	if got := strings.Count(document, `<svg class="line"`); got != 4 {
		t.Errorf("%d timelines drawn, want 4", got)
	}
	if got := strings.Count(document, `class="num first">ours`); got != 3 {
		t.Errorf("%d columns of ours beside published, want 3: only the base scenario was published", got)
	}
}

// Who opens the page sees what happened first, and of the checks those that did not
// hold: the others are folded.
func TestTimelinesComeFirst(t *testing.T) {
	document := render(t, examplePage(1))
	at := -1
	for _, part := range []string{`id="timelines"`, `id="results"`, `id="published"`, `id="distributions"`, `id="checks"`, `class="broken"`, "<details><summary>3 of 4 held", `class="held"`, `id="settings"`} {
		next := strings.Index(document, part)
		if next <= at {
			t.Errorf("%s stands at %d, want it behind %d", part, next, at)
		}
		at = next
	}
	if got := strings.Count(document, `href="#published"`); got != 3 {
		t.Errorf("%d columns refer to the note on the published figures, want 3", got)
	}
	without := examplePage(1)
	without.Published = ""
	if strings.Contains(render(t, without), "#published") {
		t.Error("columns refer to a note that is not there")
	}
}

// Self-contained: nothing in the document names a place to load from.
func TestPageIsSelfContained(t *testing.T) {
	document := render(t, examplePage(1))
	for _, pattern := range []string{`(?i)<script`, `(?i)\bsrc=`, `https?://`, `(?i)@import`, `(?i)@font-face`, `(?i)<(img|iframe|object|embed|form|base)\b`} {
		if found := regexp.MustCompile(pattern).FindString(document); found != "" {
			t.Errorf("the document has %q", found)
		}
	}
	for _, reference := range regexp.MustCompile(`(?:href="|url\()([^")]*)`).FindAllStringSubmatch(document, -1) {
		if target := reference[1]; !strings.HasPrefix(target, "#") && target != "data:," {
			t.Errorf("the document refers to %q", target)
		}
	}
	for _, reference := range regexp.MustCompile(`(?:href="|url\(|aria-labelledby=")#?([\w-]+)`).FindAllStringSubmatch(document, -1) {
		if target := reference[1]; target != "data" && !strings.Contains(document, `id="`+target+`"`) {
			t.Errorf("the document refers to #%s, which it does not have", target)
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	first, second := render(t, examplePage(7)), render(t, examplePage(7))
	if first != second {
		t.Error("the same page was rendered in two ways")
	}
}

func TestRenderDoesNotChangeItsInput(t *testing.T) {
	samples := []float64{3, 1, 2}
	marks := []report.Mark{{At: 2, Agent: "a", Kind: report.Wake}, {At: 1, Agent: "a", Kind: report.Freeze}}
	spans := []report.Span{{Job: "2", Start: 5, End: 6}, {Job: "1", Start: 0, End: 1}}
	render(t, report.Page{
		Timelines:     []report.Timeline{{Lanes: []report.Lane{{Agent: "a", Spans: spans}}, Marks: marks}},
		Distributions: []report.Distribution{{Series: []report.Series{{Samples: samples}}}},
	})
	if !slices.Equal(samples, []float64{3, 1, 2}) || marks[0].At != 2 || spans[0].Job != "2" {
		t.Errorf("input changed: %v %v %v", samples, marks, spans)
	}
}

// Every text field gets hostile text; none may become markup.
func TestAllTextIsEscaped(t *testing.T) {
	const evil = `"><script>alert('x')</script><b onload=x>{{.}}`
	document := render(t, report.Page{
		Title: evil, Lead: evil, Headline: evil, Published: evil,
		Settings: []report.Setting{{Name: evil, Value: evil}}, Checks: []report.Check{{Claim: evil, Found: evil}},
		Scenarios: []report.Scenario{{Name: evil, About: evil}}, Measures: []report.Measure{{Name: evil, Unit: evil, Help: evil}},
		Results: []report.Result{{Scenario: evil, Mode: evil, Figures: []report.Figure{{Ours: new(1.0), Note: evil}}}},
		Timelines: []report.Timeline{{Scenario: evil, Mode: evil, Note: evil,
			Lanes: []report.Lane{{Agent: evil, Spans: []report.Span{{Job: evil, End: time.Hour, Outcome: evil, Note: evil}}}},
			Marks: []report.Mark{{At: 1, Agent: evil, Kind: evil, Job: evil, Note: evil}, {Kind: evil, Job: evil}}}},
		Distributions: []report.Distribution{{Name: evil, Unit: evil, Note: evil, Series: []report.Series{{Mode: evil, Samples: []float64{1}}}}},
	})
	for _, markup := range []string{"<script", "<b onload", `"">`} {
		if strings.Contains(document, markup) {
			t.Errorf("the document has %q as markup", markup)
		}
	}
	wantAll(t, document, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;", "{{.}}")
	mustParse(t, document)
}

func TestEmptyPages(t *testing.T) {
	for name, page := range map[string]report.Page{
		"zero":               {},
		"empty timeline":     {Timelines: []report.Timeline{{}}},
		"lane without spans": {Timelines: []report.Timeline{{Lanes: []report.Lane{{}}}}},
		"only a mark":        {Timelines: []report.Timeline{{Marks: []report.Mark{{}}}}},
		"no series":          {Distributions: []report.Distribution{{}}},
		"no samples":         {Distributions: []report.Distribution{{Series: []report.Series{{}}}}},
		"no figures":         {Measures: []report.Measure{{}}, Results: []report.Result{{}}},
		"no measures":        {Results: []report.Result{{Figures: []report.Figure{{Ours: new(1.0)}}}}},
		"unknown headline":   {Headline: "x", Results: []report.Result{{}}},
	} {
		t.Run(name, func(t *testing.T) { mustParse(t, render(t, page)) })
	}
	wantAll(t, render(t, report.Page{}), "<title>Race report</title>", "Nothing was measured.")
}

// Numbers that no measurement yields must neither crash nor reach a position.
func TestSenselessNumbers(t *testing.T) {
	extremes := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0}
	page := report.Page{Headline: "m", Measures: []report.Measure{{Name: "m"}}}
	for i, v := range extremes {
		page.Results = append(page.Results, report.Result{Mode: "m", Trials: math.MinInt, Figures: []report.Figure{{Ours: &extremes[i], Published: &extremes[i]}}})
		for _, other := range append(extremes, 1e15, 1e15-0.125, 5, -3) {
			page.Distributions = append(page.Distributions, report.Distribution{
				Series: []report.Series{{Samples: []float64{v, other}, Published: &extremes[i]}, {Samples: []float64{other}}}})
		}
	}
	far := []time.Duration{math.MinInt64, math.MaxInt64, 0, 1, -1}
	for _, from := range far {
		for _, to := range far {
			page.Timelines = append(page.Timelines, report.Timeline{
				Lanes: []report.Lane{{Agent: "a", Spans: []report.Span{{Job: "1", Start: from, End: to}, {Job: "2", Start: to, End: from}}}},
				Marks: []report.Mark{{At: from, Kind: report.Crash, Agent: "a"}, {At: to, Kind: report.Takeover, Job: "1", Agent: "b"}}})
		}
	}
	document := render(t, page)
	mustParse(t, document)
	for _, drawing := range regexp.MustCompile(`\b(?:x|y|d|width|height|viewBox|transform)="[^"]*(?:NaN|Inf|e[+-])[^"]*"`).FindAllString(document, 3) {
		t.Errorf("a position is no number: %s", drawing)
	}
	for _, size := range regexp.MustCompile(`\b(?:width|height)="-[^"]*"`).FindAllString(document, 3) {
		t.Errorf("a size is negative: %s", size)
	}
	wantAll(t, document, "not measured", "samples that are no numbers")
}

func TestWriterErrorIsReturned(t *testing.T) {
	broken := errors.New("disk full")
	if err := report.Render(failingWriter{broken}, examplePage(1)); !errors.Is(err, broken) {
		t.Errorf("Render = %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// mustParse checks that every element is closed where it has to be.
func mustParse(t *testing.T, document string) {
	t.Helper()
	document = regexp.MustCompile(`(?s)<style>.*</style>|<(?:meta|link)\b[^>]*>`).ReplaceAllString(document, "")
	decoder := xml.NewDecoder(strings.NewReader(document))
	for {
		if _, err := decoder.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the document does not parse: %v", err)
			}
			return
		}
	}
}
