package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

// writeReport puts a page where a browser finds it.
func writeReport(t *testing.T, page report.Page) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(render(t, page)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	onLight = params{"media": "screen", "features": []params{{"name": "prefers-color-scheme", "value": "light"}}}
	onDark  = params{"media": "screen", "features": []params{{"name": "prefers-color-scheme", "value": "dark"}}}
	// Somebody with a dark screen prints, too.
	onPaper = params{"media": "print", "features": []params{{"name": "prefers-color-scheme", "value": "dark"}}}
)

// One browser serves all tests: starting it takes longest.
func TestReportInBrowser(t *testing.T) {
	browser := startChromium(t)
	path := writeReport(t, examplePage(1))
	for _, view := range []struct {
		name   string
		width  int
		media  params
		isDark bool
	}{
		{"light", 1280, onLight, false},
		{"dark", 1280, onDark, true},
		{"paper", 800, onPaper, false},
		{"phone", 390, onLight, false},
	} {
		t.Run(view.name, func(t *testing.T) {
			page := browser.open(t, path, view.width, view.media)
			checkQuiet(t, page)
			checkVisible(t, page)
			checkText(t, page)
			var isDark bool
			page.eval(luminance+`luminance(getComputedStyle(document.body).backgroundColor) < 0.2`, &isDark)
			if isDark != view.isDark {
				t.Errorf("background is dark: %v, want %v", isDark, view.isDark)
			}
			page.save(view.name)
			if view.name == "phone" {
				checkScrollCue(t, page)
			}
		})
	}
	t.Run("pictures", func(t *testing.T) { testPictures(t, browser) })
	t.Run("crowded", func(t *testing.T) { testCrowded(t, browser) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, browser) })
	t.Run("checks see trouble", func(t *testing.T) { testChecksSeeTrouble(t, browser) })
}

// The pictures of README.md are as readable as the page.
func testPictures(t *testing.T, browser *chromium) {
	for _, name := range []string{"race", "top"} {
		path, err := filepath.Abs(filepath.Join("../../../docs", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, media := range []params{onLight, onDark} {
			page := browser.open(t, path, 1200, media)
			checkQuiet(t, page)
			checkText(t, page)
			var outside []string
			page.eval(`(() => {
				const all = document.documentElement.getBoundingClientRect();
				return [...document.querySelectorAll("text, .bar")].filter(e => {
					const b = e.getBoundingClientRect();
					return b.left < all.left + 4 || b.right > all.right - 4 || b.bottom > all.bottom - 4;
				}).map(e => e.textContent);
			})()`, &outside)
			if len(outside) > 0 {
				t.Errorf("%s.svg: %q stands outside", name, outside)
			}
		}
	}
}

// Twenty agents, long names, more marks than there is room for, marks at both
// edges: labels give way, they do not pile up.
func testCrowded(t *testing.T, browser *chromium) {
	page := browser.open(t, writeReport(t, crowdedPage(3)), 1280, onLight)
	checkQuiet(t, page)
	checkText(t, page)
	page.save("crowded")
}

// What a job's name cannot do: run, load, or break out of the drawing.
func testHostile(t *testing.T, browser *chromium) {
	const evil = `</title></svg><script>document.title = "taken"</script><img src="http://127.0.0.1:9/x" onerror="document.title='taken'">`
	small := smallPage()
	small.Timelines[0].Lanes[0].Spans[0].Job = evil
	small.Timelines[0].Lanes[0].Agent = evil
	small.Results[0].Mode, small.Distributions[0].Series[0].Mode = evil, evil
	page := browser.open(t, writeReport(t, small), 1280, onLight)
	checkQuiet(t, page)
	var title string
	page.eval(`document.title`, &title)
	if title != "Race" {
		t.Errorf("document.title = %q, want %q", title, "Race")
	}
	var foreign int
	page.eval(`document.querySelectorAll("script, img, [onerror]").length`, &foreign)
	if foreign != 0 {
		t.Errorf("%d elements came out of a name, want 0", foreign)
	}
}

// The checks themselves have to see what they are for.
func testChecksSeeTrouble(t *testing.T, browser *chromium) {
	path := filepath.Join(t.TempDir(), "bad.html")
	bad := `<!doctype html><title>x</title><img src="http://127.0.0.1:9/x.png"><script>console.error("oh no"); throw new Error("broken")</script>` +
		`<p style="color: #999">faint</p><svg class="hist"><text x="9" y="9">one</text><text x="12" y="9">two</text></svg>`
	if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	page := browser.open(t, path, 800, onLight)
	requests, complaints := page.heard()
	if got := strings.Join(requests, " "); !strings.Contains(got, "http://127.0.0.1:9/x.png") {
		t.Errorf("requests = %q, want the image among them", requests)
	}
	if got := strings.Join(complaints, " "); !strings.Contains(got, "oh no") || !strings.Contains(got, "broken") {
		t.Errorf("complaints = %q, want the message and the exception", complaints)
	}
	if got := page.overlaps(); !slices.Equal(got, []string{"one on two"}) {
		t.Errorf("overlaps = %q, want one on two", got)
	}
	if got := page.faint(); len(got) != 1 || !strings.HasPrefix(got[0], "P.") {
		t.Errorf("faint = %q, want the paragraph", got)
	}
}

// heard sorts what the page asked for and what it complained about.
func (p tab) heard() (requests, complaints []string) {
	p.t.Helper()
	for _, event := range p.events {
		if event.SessionID != p.session {
			continue
		}
		switch event.Method {
		case "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			if err := json.Unmarshal(event.Params, &sent); err != nil {
				p.t.Fatal(err)
			}
			requests = append(requests, sent.Request.URL)
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			complaints = append(complaints, string(event.Params))
		}
	}
	return requests, complaints
}

// checkQuiet: the page asked for itself only, and the console is empty.
func checkQuiet(t *testing.T, page tab) {
	t.Helper()
	requests, complaints := page.heard()
	for i, url := range requests {
		if i == 0 && strings.HasPrefix(url, "file://") || strings.HasPrefix(url, "data:") {
			continue
		}
		t.Errorf("the page requests %s", url)
	}
	if len(requests) == 0 {
		t.Error("no request heard, not even the page's own")
	}
	for _, complaint := range complaints {
		t.Errorf("the console says %s", complaint)
	}
}

// checkVisible: timelines, their bars and the histograms have an extent and are
// painted, and the page is no wider than the window.
func checkVisible(t *testing.T, page tab) {
	t.Helper()
	for _, part := range []struct {
		selector      string
		count         int
		width, height float64
	}{
		{"svg.line", 4, 300, 60},
		{"svg.line .bar", 120, 0.5, 5},
		{"svg.line .link", 3, 0, 5},
		{"svg.hist", 4, 250, 80},
		{"svg.hist .count", 40, 0.5, 0.5},
		{"table.results", 3, 250, 100},
		{".tiles li", 3, 60, 40},
	} {
		var seen struct {
			Count         int
			Width, Height float64
			Invisible     int
		}
		selector, _ := json.Marshal(part.selector)
		page.eval(`(() => {
			const all = [...document.querySelectorAll(`+string(selector)+`)], boxes = all.map(e => e.getBoundingClientRect());
			return {Count: all.length, Width: Math.min(...boxes.map(b => b.width)), Height: Math.min(...boxes.map(b => b.height)),
				Invisible: all.filter(e => !e.checkVisibility({opacityProperty: true, visibilityProperty: true})).length};
		})()`, &seen)
		if seen.Count < part.count || seen.Width < part.width || seen.Height < part.height || seen.Invisible > 0 {
			t.Errorf("%s: %+v, want at least %d of %gx%g and all visible", part.selector, seen, part.count, part.width, part.height)
		}
	}
	var tooWide float64
	page.eval(`document.documentElement.scrollWidth - innerWidth`, &tooWide)
	if tooWide > 0 {
		t.Errorf("the page is %g px wider than the window", tooWide)
	}
}

// checkScrollCue: what is wider than its box has a shade at the edge behind which
// there is more, and none where it ends.
func checkScrollCue(t *testing.T, page tab) {
	t.Helper()
	for _, selector := range []string{".tablebox.wide", ".timeline .scroll"} {
		var box struct{ Left, Right, Top, Hidden float64 }
		find := `document.querySelector("` + selector + `")`
		look := `(() => {
			const e = ` + find + `, b = e.getBoundingClientRect();
			return {Left: b.left + e.clientLeft, Right: b.left + e.clientLeft + e.clientWidth, Top: b.top + scrollY + 4, Hidden: e.scrollWidth - e.clientWidth - e.scrollLeft};
		})()`
		page.eval(look, &box)
		if box.Hidden < 50 {
			t.Errorf("%s hides %g px, want a box that is too narrow for what is in it", selector, box.Hidden)
		}
		shaded := func() (left, right bool) {
			return page.lightness(box.Left+1, box.Top) < 0.88, page.lightness(box.Right-2, box.Top) < 0.88
		}
		if left, right := shaded(); left || !right {
			t.Errorf("%s at its beginning: shades at the edges: %v, %v, want the right one only", selector, left, right)
		}
		page.eval(find+`.scrollLeft = 1e6; `+look, &box)
		if left, right := shaded(); !left || right {
			t.Errorf("%s at its end: shades at the edges: %v, %v, want the left one only", selector, left, right)
		}
	}
}

// luminance is WCAG's relative luminance of a computed colour.
const luminance = `function luminance(colour) {
	const [r, g, b] = colour.match(/[\d.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
`

// checkText: no label of a drawing lies on another one, and all text stands out
// from its ground as WCAG AA asks.
func checkText(t *testing.T, page tab) {
	t.Helper()
	for _, overlap := range page.overlaps() {
		t.Errorf("labels overlap: %s", overlap)
	}
	for _, text := range page.faint() {
		t.Errorf("contrast below 4.5: %s", text)
	}
}

// overlaps finds labels of one drawing that lie on each other.
func (p tab) overlaps() (found []string) {
	p.t.Helper()
	p.eval(`[...document.querySelectorAll("svg.line, svg.hist, svg:root")].flatMap(svg => {
		const texts = [...svg.querySelectorAll("text")].map(e => ({text: e.textContent, box: e.getBoundingClientRect()}));
		const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
		return texts.flatMap((a, i) => texts.slice(i + 1).filter(b => touch(a.box, b.box)).map(b => a.text + " on " + b.text));
	})`, &found)
	return found
}

// faint finds text with too little contrast to what it stands on.
func (p tab) faint() (found []string) {
	p.t.Helper()
	p.eval(luminance+`(() => {
		const clear = /rgba\(.*, 0\)|transparent/;
		const ground = e => { for (; e; e = e.parentElement) { if (e.matches("svg:root")) return getComputedStyle(e.querySelector(".ground")).fill; const c = getComputedStyle(e).backgroundColor; if (!clear.test(c)) return c; } return "rgb(255, 255, 255)"; };
		const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
		const found = new Map();
		for (const e of document.querySelectorAll("body *, svg:root *")) {
			if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest("title, desc, script, style, .vh")) continue;
			const inDrawing = e.closest("svg") !== null;
			let under = ground(e);
			if (e.classList.contains("job")) under = getComputedStyle(e.parentElement.querySelector(".bar")).fill;
			if (e.classList.contains("t-title")) under = getComputedStyle(document.querySelector(".t-ground")).fill;
			const r = ratio(inDrawing ? getComputedStyle(e).fill : getComputedStyle(e).color, under);
			if (r < 4.5) found.set(e.tagName + "." + e.getAttribute("class"), r.toFixed(2));
		}
		return [...found].map(f => f.join(" "));
	})()`, &found)
	return found
}
