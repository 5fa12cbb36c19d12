package top

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Config is what the screen is told once.
type Config struct {
	Title    string // what is looked at, in a few words
	Where    string // the same, so that nobody changes something elsewhere
	Colour   bool
	ReadOnly string                     // why nothing may be changed; empty when it may
	TypeName string                     // what has to be typed before anything is changed; empty: y is enough
	Age      func(time.Duration) string // how ages are written
}

// The screens.
type screen int

const (
	queuesScreen screen = iota
	jobsScreen
	helpScreen
)

// Model is the screen: its state, what changes it, and how it is drawn. It belongs to one goroutine, but for what it asks
// a Cluster.
type Model struct {
	cfg     Config
	cluster Cluster
	width   int
	height  int

	now     time.Time
	began   time.Time // rates are counted since then
	live    bool      // there was news
	look    Look
	rev     int64
	blind   string
	unseen  string
	gap     bool
	events  []Event // newest first
	running map[string]Job
	rates   map[string]*rate
	total   rate

	screen   screen
	behind   screen // the help
	queue    string // the chosen one
	chosen   int    // the chosen job
	listing  Listing
	listed   bool // the listing is there, of this queue and filter
	listErr  string
	filter   string
	asking   bool // for a listing
	input    *input
	question *question
	acting   string // what is being done
	said     string // the last message
	leaving  bool   // q was pressed while something was being done

	interrupted bool
	cancel      context.CancelFunc
	mu          sync.Mutex // guards stopped, and asked while it may grow
	stopped     bool
	asked       sync.WaitGroup
	outcome     atomic.Pointer[string] // of an action, until it is shown
	ask         func(func(context.Context) tea.Msg) tea.Cmd
}

// New returns a screen that shows a look. What it asks of the cluster ends with ctx.
func New(ctx context.Context, cfg Config, cluster Cluster, first Look) *Model {
	ctx, cancel := context.WithCancel(ctx)
	m := &Model{cfg: cfg, cluster: cluster, now: first.At, began: first.At, rates: map[string]*rate{}, cancel: cancel}
	m.ask = func(f func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg {
			if !m.begin() {
				return nil
			}
			defer m.asked.Done()
			return f(ctx)
		}
	}
	m.looked(first)
	return m
}

// begin tells whether something may still be asked of the cluster; asked must be told when that is done.
func (m *Model) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped {
		m.asked.Add(1)
	}
	return !m.stopped
}

// stop ends what was asked of the cluster, and returns when it has ended. It tells of an action whose outcome was not
// shown.
func (m *Model) stop() (outcome string) {
	m.cancel()
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.asked.Wait()
	if s := m.outcome.Load(); s != nil {
		return *s
	}
	return ""
}

// Resize says how large the screen is.
func (m *Model) Resize(width, height int) { m.width, m.height = width, height }

// Init implements [tea.Model].
func (m *Model) Init() tea.Cmd { return nil }

// Messages from the cluster.
type (
	listedMsg struct {
		queue, filter string
		listing       Listing
		err           error
	}
	foundMsg struct {
		queue string
		found Found
		err   error
	}
	actedMsg struct{ said string }
)

// Update implements [tea.Model].
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.Resize(msg.Width, msg.Height)
	case News:
		return m, m.learn(msg)
	case listedMsg:
		return m, m.showListing(msg)
	case foundMsg:
		m.showFound(msg)
	case actedMsg:
		if m.leaving {
			return m, tea.Quit // the outcome is told behind the screen
		}
		m.acting, m.said = "", msg.said
		m.outcome.Store(nil)
		return m, m.list()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	}
	return m, nil
}

// learn takes news in.
func (m *Model) learn(n News) tea.Cmd {
	if !m.live {
		m.live, m.began = true, n.Now
	}
	m.now, m.blind, m.unseen = n.Now, n.Blind, n.Unseen
	m.rev = max(m.rev, n.Rev)
	if n.Gap { // what was counted before says nothing any more; the store may have gone back
		m.rev, m.gap, m.began, m.total = n.Rev, true, n.Now, rate{}
		clear(m.rates)
	}
	for queue, done := range n.Done {
		r := m.rates[queue]
		if r == nil {
			r = &rate{}
			m.rates[queue] = r
		}
		r.add(n.Now, done)
		m.total.add(n.Now, done)
	}
	for _, e := range n.Events {
		m.events = slices.Insert(m.events, 0, e)
	}
	m.events = m.events[:min(len(m.events), keptEvents)]
	if n.Running != nil {
		m.running = n.Running
	}
	if n.Look == nil {
		return nil
	}
	m.looked(*n.Look)
	if m.listed && m.now.Sub(m.listing.At) < 4*m.listing.Took { // a listing that is slow is not asked for all the time
		return nil
	}
	return m.list()
}

func (m *Model) looked(l Look) {
	m.look, m.rev = l, max(m.rev, l.Revision)
	for name := range m.rates {
		if !slices.ContainsFunc(l.Queues, func(q Queue) bool { return q.Name == name }) {
			delete(m.rates, name) // it is gone
		}
	}
	if len(l.Queues) > 0 && m.current() == nil && m.screen != jobsScreen {
		m.queue = l.Queues[0].Name
	}
}

// current is the chosen queue, nil when there is none.
func (m *Model) current() *Queue {
	if i := m.index(); i >= 0 {
		return &m.look.Queues[i]
	}
	return nil
}

func (m *Model) index() int {
	return slices.IndexFunc(m.look.Queues, func(q Queue) bool { return q.Name == m.queue })
}

// list asks for the jobs on the screen, if they are and nobody has asked yet.
func (m *Model) list() tea.Cmd {
	if m.screen != jobsScreen || m.asking {
		return nil
	}
	m.asking = true
	queue, filter := m.queue, m.filter
	return m.ask(func(ctx context.Context) tea.Msg {
		l, err := m.cluster.Jobs(ctx, queue, filter)
		return listedMsg{queue, filter, l, err}
	})
}

func (m *Model) showListing(msg listedMsg) tea.Cmd {
	m.asking = false
	if msg.queue != m.queue || msg.filter != m.filter {
		return m.list() // by now something else is to be shown
	}
	if msg.err != nil {
		m.listErr = m.cluster.Explain(msg.err)
		return nil
	}
	id := ""
	if j := m.job(); j != nil {
		id = j.ID
	}
	m.listing, m.listed, m.listErr = msg.listing, true, ""
	if i := slices.IndexFunc(m.listing.Jobs, func(j Job) bool { return j.ID == id }); i >= 0 {
		m.chosen = i
	}
	m.chosen = max(min(m.chosen, len(m.listing.Jobs)-1), 0)
	return nil
}

// job is the chosen job, nil when there is none.
func (m *Model) job() *Job {
	if !m.listed || m.chosen >= len(m.listing.Jobs) {
		return nil
	}
	return &m.listing.Jobs[m.chosen]
}
