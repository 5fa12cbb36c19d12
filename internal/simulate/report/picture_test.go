package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

// readmePicture is what README.md shows, maxPicture how large it may be.
const (
	readmePicture = "../../../docs/race.svg"
	maxPicture    = 60_000
)

// recordedRace is one trial of the published race in each way, as it went.
func recordedRace(t *testing.T) report.Page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "race.json"))
	if err != nil {
		t.Fatal(err)
	}
	page := report.Page{Title: "3 agents share 30 jobs in three ways, and one of them dies"}
	if err := json.Unmarshal(b, &page.Timelines); err != nil {
		t.Fatal(err)
	}
	return page
}

// TestPictureOfTheRace holds the picture of README.md to what this code draws of the
// race that was recorded.
func TestPictureOfTheRace(t *testing.T) {
	var drawn strings.Builder
	if err := report.RenderTimelines(&drawn, recordedRace(t)); err != nil {
		t.Fatal(err)
	}
	mustParse(t, drawn.String())
	if drawn.Len() > maxPicture {
		t.Errorf("the picture has %d bytes, want at most %d", drawn.Len(), maxPicture)
	}
	if *update {
		if err := os.WriteFile(readmePicture, []byte(drawn.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := os.ReadFile(readmePicture)
	if err != nil {
		t.Fatal(err)
	}
	if string(shown) != drawn.String() {
		t.Error("docs/race.svg is not what this code draws: look at it with a browser, and run make pictures")
	}
}

// What is drawn is text, and stays where it stands.
func TestScreenSetsWordsInTheirColumns(t *testing.T) {
	var drawn strings.Builder
	err := report.RenderScreen(&drawn, report.Screen{Title: "a <b>", Width: 40, Rows: [][]report.Piece{
		{{Text: "top  of it", Tone: "title"}},
		{{Text: "  one two   three", Column: 1}, {Text: "bad </text>", Column: 18, Tone: "bad"}},
		{{Text: "    "}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustParse(t, drawn.String())
	wantAll(t, drawn.String(), "<title id=\"title\">a &lt;b&gt;</title>",
		`<rect class="t-ground" x="12" y="18" width="324" height="17"/>`,
		`<text class="cell t-title" x="18" y="30.5" textLength="23.4">top</text>`,
		`<text class="cell t-title" x="57" y="30.5" textLength="39">of it</text>`,
		`<text class="cell" x="41.4" y="47.5" textLength="54.6">one two</text>`,
		`<text class="cell" x="119.4" y="47.5" textLength="39">three</text>`,
		`<text class="cell t-bad" x="158.4" y="47.5" textLength="85.8">bad &lt;/text&gt;</text>`)
	if got := strings.Count(drawn.String(), "<text"); got != 5 {
		t.Errorf("%d texts drawn, want 5", got)
	}
}
