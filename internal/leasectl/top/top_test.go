package top_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/internal/leasectl/top"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake is a cluster that notes what it is asked.
type fake struct {
	mu      sync.Mutex
	asked   []string
	listing top.Listing
	found   top.Found
	err     error
	panics  bool // when it is to pause a queue
}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fake) Jobs(_ context.Context, queue, filter string) (top.Listing, error) {
	return f.listing, f.note("jobs %s %q", queue, filter)
}

func (f *fake) Check(_, filter string) error {
	if strings.Contains(filter, "bad") {
		return errors.New("no such field")
	}
	return nil
}

func (f *fake) SetPaused(_ context.Context, queue string, paused bool, rev int64) error {
	if f.panics {
		panic("bug")
	}
	return f.note("paused %s %t %d", queue, paused, rev)
}

func (f *fake) FindDead(_ context.Context, queue string) (top.Found, error) {
	return f.found, f.note("dead %s", queue)
}

func (f *fake) Explain(err error) string { return err.Error() + "; try: again" }

func spell(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

func someLook() top.Look {
	return top.Look{
		At: noon, Revision: 918400,
		Queues: []top.Queue{
			{Name: "mail", Shell: "mail", Revision: 71, Ready: 1180, Claimed: 31, Retry: 12, Dead: 2, Oldest: noon.Add(-41 * time.Second), Busy: 31, Concurrency: 32, Rate: 10.3},
			{Name: "reports", Shell: "reports", Revision: 72, Paused: true, PausedAt: noon.Add(-time.Hour), Scheduled: 3, Ready: 123456},
			{Name: "weekly-summaries-of-all-tenants", Shell: "weekly-summaries-of-all-tenants"},
		},
		Workers: []top.Worker{
			{Name: "w-19ee", Session: "w-19ee.1", Lost: true, Queues: []string{"mail"}, Busy: 1},
			{Name: "w-7f31", Session: "w-7f31.1", Queues: []string{"mail"}, Busy: 8, Concurrency: 8, TTLLeft: 9 * time.Second},
			{Name: "other", Session: "other.1", Queues: []string{"reports"}, Concurrency: 4, TTLLeft: 3 * time.Second},
		},
		Problems: []top.Problem{{Code: "J1", Message: "1 claim by a gone session (job mail/01J9X4)", Run: "leasectl doctor --fix"}},
	}
}

func someNews() top.News {
	return top.News{
		Now: noon.Add(2 * time.Second), Rev: 918410, Done: map[string]int{"mail": 20},
		Running: map[string]top.Job{"w-7f31.1": {ID: "01J9X7", Kind: "send", Claimed: noon}, "w-19ee.1": {ID: "01J9X4", Kind: "send", Claimed: noon.Add(-3 * time.Minute)}},
		Events: []top.Event{
			{Time: noon, Type: "reclaimed", About: "mail/01J9X7", Actor: "w-7f31", Detail: "the session of w-02ab is gone", Token: "918033"},
			{Time: noon.Add(time.Second), Type: "FENCED", About: "mail/01J9X7", Actor: "w-02ab", Detail: "late complete refused", Token: "917990"},
			{Type: "session-ended", Actor: "w-02ab"},
		},
	}
}

// rig is a screen, and who sits before it.
type rig struct {
	t *testing.T
	m *top.Model
	f *fake
}

func newRig(t *testing.T, cfg top.Config, look top.Look) *rig {
	t.Helper()
	cfg.Title, cfg.Where, cfg.Age = "prod", "context prod (http://a:2379 root /x/)", spell
	r := &rig{t: t, f: &fake{}}
	r.m = top.New(t.Context(), cfg, r.f, look)
	r.m.Resize(80, 24)
	return r
}

// send delivers a message, and what comes of it. It tells whether the program would end.
func (r *rig) send(msg tea.Msg) (quit bool) {
	for msg != nil {
		_, cmd := r.m.Update(msg)
		if cmd == nil {
			return false
		}
		msg = cmd()
		if _, ok := msg.(tea.QuitMsg); ok {
			return true
		}
	}
	return false
}

// press types keys: runes, or names in angle brackets.
func (r *rig) press(keys ...string) (quit bool) {
	named := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "tab": {Code: tea.KeyTab},
		"backspace": {Code: tea.KeyBackspace}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
	}
	for _, k := range keys {
		if key, ok := named[k]; ok {
			quit = r.send(tea.KeyPressMsg(key))
			continue
		}
		for _, c := range k {
			quit = r.send(tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
	return quit
}

func (r *rig) shows(want ...string) {
	r.t.Helper()
	frame := r.m.Frame()
	for _, w := range want {
		if !strings.Contains(strings.ReplaceAll(frame, "\n", " "), w) {
			r.t.Errorf("the screen does not show %q:\n%s", w, frame)
		}
	}
}

func (r *rig) asked(want ...string) {
	r.t.Helper()
	if got := strings.Join(r.f.asked, ", "); got != strings.Join(want, ", ") {
		r.t.Errorf("asked %q, want %q", got, want)
	}
}

func TestFrames(t *testing.T) {
	jobs := top.Listing{At: noon, More: true, Jobs: []top.Job{
		{ID: "01J9X7", Kind: "send", State: "claimed", Attempt: "1/5", Owner: "w-7f31.390da227f8f8ce2f", Enqueued: noon.Add(-41 * time.Second)},
		{ID: "01J9X4", Kind: "send", State: "dead", Attempt: "5/5", Enqueued: noon.Add(-time.Hour), Error: "smtp 421: try again later\nor never, who can tell"},
	}}
	for _, test := range []struct {
		name          string
		width, height int
		do            func(*rig)
	}{
		{"queues_80x24", 80, 24, func(*rig) {}},
		{"queues_120x40", 120, 40, func(*rig) {}},
		{"small_40x10", 40, 10, func(*rig) {}},
		{"second_80x24", 80, 24, func(r *rig) { r.press("tab") }},
		{"jobs_80x24", 80, 24, func(r *rig) { r.f.listing = jobs; r.press("enter", "down") }},
		{"help_80x24", 80, 24, func(r *rig) { r.press("?") }},
		{"pause_80x24", 80, 24, func(r *rig) { r.press("p") }},
		{"stale_80x24", 80, 24, func(r *rig) {
			r.send(top.News{Now: noon.Add(20 * time.Second), Blind: "read /x/queues/: no answer in time; try: check the cluster", Unseen: "the watch broke"})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, top.Config{}, someLook())
			r.send(tea.WindowSizeMsg{Width: test.width, Height: test.height})
			r.send(someNews())
			test.do(r)
			got := r.m.Frame() + "\n"
			fits(t, got, test.width, test.height)
			file := filepath.Join("testdata", test.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; the screen is:\n%s", file, got)
			}
			if !r.m.View().AltScreen {
				t.Error("it would draw over what stood on the terminal")
			}
		})
	}
}

func fits(t *testing.T, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
	if len(lines) != height {
		t.Errorf("%d lines, want %d", len(lines), height)
	}
	for _, l := range lines {
		if w := ansi.StringWidth(l); w > width {
			t.Errorf("a line is %d wide, want at most %d: %q", w, width, l)
		}
	}
}

// Whatever stands in etcd, and however large the terminal is: it fits, and the terminal obeys nothing of it.
func TestFramesFitAndAreInert(t *testing.T) {
	evil := "\x1b]0;owned\x07\x1b[2J\u202e世界\xff" + strings.Repeat("長い", 60)
	look := someLook()
	look.Notes = []string{evil, evil, evil}
	for i := range 30 {
		look.Queues = append(look.Queues, top.Queue{Name: fmt.Sprint(i, evil), Ready: 1 << 40, Busy: 9, Concurrency: 10})
		look.Workers = append(look.Workers, top.Worker{Name: evil, Session: fmt.Sprint(i), Queues: []string{"mail"}, Busy: 1})
		look.Problems = append(look.Problems, top.Problem{Code: "J1", Message: evil, Run: evil})
	}
	news := someNews()
	news.Running["3"] = top.Job{ID: evil}
	for range 200 {
		news.Events = append(news.Events, top.Event{Type: evil, About: evil, Detail: evil})
	}
	r := newRig(t, top.Config{}, look)
	r.f.listing = top.Listing{Jobs: []top.Job{{ID: evil, Kind: evil, Error: evil}}}
	r.f.found = top.Found{Count: 3, About: evil + " " + evil}
	r.send(news)
	for _, keys := range [][]string{{}, {"r"}, {"esc", "enter"}, {"/", "x", evil}, {"esc", "?"}} {
		r.press(keys...)
		for _, height := range []int{1, 14, 15, 24, 60} {
			for width := 1; width < 220; width += 7 {
				r.m.Resize(width, height)
				frame := r.m.Frame()
				fits(t, frame+"\n", width, height)
				if strings.ContainsAny(frame, "\x1b\x07\u202e") {
					t.Fatalf("the terminal is commanded: %q", frame)
				}
			}
		}
	}
}

func TestColoursOnlyWhenWanted(t *testing.T) {
	for _, colour := range []bool{false, true} {
		r := newRig(t, top.Config{Colour: colour}, someLook())
		r.send(someNews())
		if got := strings.Contains(r.m.Frame(), "\x1b["); got != colour {
			t.Errorf("colours wanted %t, drawn %t", colour, got)
		}
		fits(t, r.m.Frame()+"\n", 80, 24)
	}
}
