package report_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// requireBrowser makes a missing browser a failure instead of a skip. CI sets
// it, where a skipped test would go unnoticed.
const requireBrowser = "LEASEKIT_REQUIRE_BROWSER"

// browserPatience bounds one test's whole conversation with the browser. It is
// a deadline against hanging, not an expectation.
const browserPatience = 5 * time.Minute

// chromium is a headless browser, spoken to in the DevTools protocol through
// two pipes: JSON messages, each ended by a zero byte. It is for one goroutine.
// Trouble is reported to t, which a subtest may replace by its own.
type chromium struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	reader *bufio.Reader
	lastID int
	events []message
}

// message is a call, its answer or an event, depending on what is set.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// findChromium returns the browser's path; without one it ends the test.
func findChromium(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a browser cannot be given pipes as file descriptors 3 and 4 on Windows")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "no chromium, chromium-browser or google-chrome in PATH: apt-get install chromium"
	if os.Getenv(requireBrowser) != "" {
		t.Fatalf("%s (%s is set)", why, requireBrowser)
	}
	t.Skip(why)
	return ""
}

// startChromium starts a browser that ends with the test.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path := findChromium(t)
	dir, err := os.MkdirTemp("", "report-browser")
	if err != nil {
		t.Fatal(err)
	}
	// The browser's helpers may still write while it ends, which t.TempDir
	// would count as a failure.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	childIn, in, err1 := os.Pipe()
	out, childOut, err2 := os.Pipe()
	logged, err3 := os.Create(filepath.Join(dir, "stderr"))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-extensions", "--disable-sync", "--hide-scrollbars", "--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{childIn, childOut}
	cmd.Stderr = logged
	// Without a home of its own it would look at the user's settings.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	err = cmd.Start()
	_, _, _ = childIn.Close(), childOut.Close(), logged.Close()
	if err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	b := &chromium{t: t, cmd: cmd, in: in, out: out, reader: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		b.t = t
		b.stop(filepath.Join(dir, "stderr"))
	})
	deadline := time.Now().Add(browserPatience)
	if err := errors.Join(in.SetDeadline(deadline), out.SetDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	return b
}

// stop ends the browser and waits for it: it goes by itself when its pipe does.
func (b *chromium) stop(stderr string) {
	if b.t.Failed() {
		if said, err := os.ReadFile(stderr); err == nil {
			b.t.Logf("the browser's stderr:\n%s", said)
		}
	}
	_ = b.write(message{ID: b.lastID + 1, Method: "Browser.close"})
	_ = b.out.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, b.reader); err != nil {
		_ = b.cmd.Process.Kill()
	}
	_, _, _ = b.cmd.Wait(), b.in.Close(), b.out.Close()
}

func (b *chromium) write(m message) error {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(line, 0))
	}
	return err
}

func (b *chromium) read() message {
	b.t.Helper()
	line, err := b.reader.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("read from the browser: %v", err)
	}
	var m message
	if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
		b.t.Fatalf("read from the browser: %v in %.200s", err, line)
	}
	return m
}

// call asks and waits for the answer, which it decodes into result. Events that
// arrive meanwhile are kept.
func (b *chromium) call(session, method string, params, result any) {
	b.t.Helper()
	encoded, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lastID++
	if err := b.write(message{ID: b.lastID, Method: method, Params: encoded, SessionID: session}); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		answer := b.read()
		switch {
		case answer.ID == 0:
			b.events = append(b.events, answer)
		case answer.ID != b.lastID:
		case answer.Error != nil:
			b.t.Fatalf("%s: %s", method, answer.Error.Message)
		case result != nil:
			if err := json.Unmarshal(answer.Result, result); err != nil {
				b.t.Fatalf("%s: %v in %.200s", method, err, answer.Result)
			}
			return
		default:
			return
		}
	}
}

// await reads on until an event has arrived in the session.
func (b *chromium) await(session, method string) {
	b.t.Helper()
	for seen := 0; ; seen++ {
		if seen == len(b.events) {
			event := b.read()
			b.events = append(b.events, event)
		}
		if b.events[seen].Method == method && b.events[seen].SessionID == session {
			return
		}
	}
}

// tab is one open page.
type tab struct {
	*chromium
	session string
}

// params are the arguments of a call.
type params map[string]any

// open shows a file in a new tab, waits until all of it is there, and listens
// to every request, message and error from the start. Trouble from here on,
// with this tab or another, is t's.
func (b *chromium) open(t *testing.T, path string, width int, media params) tab {
	t.Helper()
	b.t, b.events = t, nil
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", params{"url": "about:blank"}, &target)
	t.Cleanup(func() { b.call("", "Target.closeTarget", params{"targetId": target.TargetID}, nil) })
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", params{"targetId": target.TargetID, "flatten": true}, &attached)
	page := tab{b, attached.SessionID}
	for _, domain := range []string{"Network", "Page", "Runtime", "Log"} {
		page.call(page.session, domain+".enable", params{}, nil)
	}
	page.call(page.session, "Emulation.setDeviceMetricsOverride",
		params{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	page.call(page.session, "Emulation.setEmulatedMedia", media, nil)
	b.events = nil
	var answer struct{ ErrorText string }
	page.call(page.session, "Page.navigate", params{"url": "file://" + path}, &answer)
	if answer.ErrorText != "" {
		t.Fatalf("open %s: %s", path, answer.ErrorText)
	}
	page.await(page.session, "Page.loadEventFired")
	return page
}

// eval computes a JavaScript expression in the page into result.
func (p tab) eval(expression string, result any) {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call(p.session, "Runtime.evaluate", params{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if failed := answer.ExceptionDetails; failed != nil {
		p.t.Fatalf("evaluate: %s %s", failed.Text, failed.Exception.Description)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		p.t.Fatalf("evaluate: %v in %.200s", err, answer.Result.Value)
	}
}

// lightness is how light the page is painted at a place, 0 to 1.
func (p tab) lightness(x, y float64) float64 {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.call(p.session, "Page.captureScreenshot", params{"format": "png", "captureBeyondViewport": true,
		"clip": params{"x": math.Floor(x), "y": math.Floor(y), "width": 1, "height": 1, "scale": 1}}, &shot)
	pixels, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		p.t.Fatalf("read the screenshot: %v", err)
	}
	return float64(color.GrayModel.Convert(pixels.At(0, 0)).(color.Gray).Y) / 255
}

// save keeps what the page looks like when go test runs with -artifacts, which
// is how to look at the report.
func (p tab) save(name string) {
	p.t.Helper()
	if wanted := flag.Lookup("test.artifacts"); wanted == nil || wanted.Value.String() != "true" {
		return
	}
	var shot struct{ Data []byte }
	p.call(p.session, "Page.captureScreenshot", params{"format": "png", "captureBeyondViewport": true}, &shot)
	path := filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%s.png", name))
	if err := os.WriteFile(path, shot.Data, 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("what it looks like: %s (%d bytes)", path, len(shot.Data))
}
