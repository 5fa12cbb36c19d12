package top

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/leasekit/leasekit/internal/escape"
)

// The keys, and what the help says of them.
var (
	keyQuit   = bind("q", "leave", "q")
	keyHelp   = bind("?", "this help", "?")
	keyUp     = bind("up, k", "the queue or job above", "up", "k", "shift+tab")
	keyDown   = bind("down, j, tab", "the one below", "down", "j", "tab")
	keyPgUp   = bind("pgup, pgdown", "ten of them", "pgup")
	keyPgDown = bind("", "", "pgdown")
	keyEnter  = bind("enter", "the jobs of the queue; of a job, what tells more", "enter")
	keyBack   = bind("esc", "back", "esc", "backspace", "left")
	keyFilter = bind("/", "only jobs that match, such as state:dead kind:send*", "/")
	keyPause  = bind("p", "pause the queue, or resume it; asks first", "p")
	keyRetry  = bind("r", "retry the dead jobs of the queue; asks first", "r")
	keyDelete = bind("D, P", "which command deletes or purges", "D")
	keyPurge  = bind("", "", "P")
	keyStop   = bind("ctrl+z", "stop, until fg", "ctrl+z")
	keyAbort  = bind("ctrl+c", "leave at once", "ctrl+c")

	keys = []key.Binding{keyUp, keyDown, keyPgUp, keyEnter, keyBack, keyFilter, keyPause, keyRetry, keyDelete, keyHelp, keyQuit, keyAbort, keyStop}
)

func bind(shown, help string, names ...string) key.Binding {
	return key.NewBinding(key.WithKeys(names...), key.WithHelp(shown, help))
}

// input is a line that is being typed.
type input struct{ text string }

// edit applies a key to the line.
func (in *input) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "backspace":
		if r := []rune(in.text); len(r) > 0 {
			in.text = string(r[:len(r)-1])
		}
	case "ctrl+u":
		in.text = ""
	case "ctrl+w":
		in.text = in.text[:strings.LastIndex(strings.TrimRight(in.text, " "), " ")+1]
	default:
		in.add(k.Text)
	}
}

func (in *input) add(text string) {
	const most = 500
	for _, r := range text {
		if !unicode.IsControl(r) && len(in.text) < most {
			in.text += string(r)
		}
	}
}

// question is asked before something is changed.
type question struct {
	text  string
	name  string // to be typed; empty: y is enough
	typed input
	doing string
	do    func(context.Context) (string, error)
}

// key is what a key does.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(k, keyAbort):
		m.interrupted = true
		return tea.Quit
	case key.Matches(k, keyStop):
		return tea.Suspend
	case m.question != nil:
		return m.answer(k)
	case m.input != nil:
		return m.typeFilter(k)
	}
	m.said = ""
	switch {
	case key.Matches(k, keyQuit):
		return m.quit()
	case m.screen == helpScreen:
		m.screen = m.behind
	case key.Matches(k, keyHelp):
		m.screen, m.behind = helpScreen, m.screen
	case key.Matches(k, keyUp):
		m.move(-1)
	case key.Matches(k, keyDown):
		m.move(1)
	case key.Matches(k, keyPgUp):
		m.move(-10)
	case key.Matches(k, keyPgDown):
		m.move(10)
	case key.Matches(k, keyBack):
		m.back()
	default:
		return m.command(k)
	}
	return nil
}

// command is what a key does to the chosen queue.
func (m *Model) command(k tea.KeyPressMsg) tea.Cmd {
	q := m.current()
	if q == nil {
		m.said = "there is no queue"
		return nil
	}
	switch {
	case key.Matches(k, keyEnter):
		return m.enter()
	case key.Matches(k, keyFilter):
		m.input = &input{text: m.filter}
	case key.Matches(k, keyPause):
		m.askPause(*q)
	case key.Matches(k, keyRetry):
		return m.findDead(*q)
	case key.Matches(k, keyDelete):
		m.said = "too severe for one key; it asks for the name: leasectl jobs delete --queue " + q.Shell + " --state dead"
	case key.Matches(k, keyPurge):
		m.said = "too severe for one key; it asks for the name: leasectl queues purge " + q.Shell
	}
	return nil
}

// quit leaves, but not while something is being done, unless asked twice.
func (m *Model) quit() tea.Cmd {
	if m.acting != "" && !m.leaving {
		m.leaving = true
		m.said = "leaving when it is done; q again leaves now"
		return nil
	}
	return tea.Quit
}

func (m *Model) move(n int) {
	if m.screen == jobsScreen {
		m.chosen = max(min(m.chosen+n, len(m.listing.Jobs)-1), 0)
		return
	}
	if count := len(m.look.Queues); count > 0 {
		i := m.index() + n
		switch {
		case n == 1 && i >= count: // tab goes round
			i = 0
		case n == -1 && i < 0:
			i = count - 1
		}
		m.queue = m.look.Queues[max(min(i, count-1), 0)].Name
	}
}

func (m *Model) back() {
	if m.screen == jobsScreen {
		m.forget()
		m.screen, m.filter = queuesScreen, ""
		m.looked(m.look) // the queue may be gone
	}
}

// forget drops the listing.
func (m *Model) forget() { m.listing, m.listed, m.listErr, m.chosen = Listing{}, false, "", 0 }

func (m *Model) enter() tea.Cmd {
	if m.screen == queuesScreen {
		m.screen = jobsScreen
		return m.list()
	}
	if j := m.job(); j != nil {
		m.said = fmt.Sprintf("leasectl jobs describe %s (or jobs history)", escape.Shell(escape.Job(m.current().Name, j.ID)))
	}
	return nil
}

// typeFilter is a key while a filter is typed.
func (m *Model) typeFilter(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.input, m.said = nil, ""
	case "enter":
		text := strings.TrimSpace(m.input.text)
		if err := m.cluster.Check(m.queue, text); err != nil {
			m.said = m.cluster.Explain(err)
			return nil
		}
		m.input, m.said, m.filter, m.screen = nil, "", text, jobsScreen
		m.forget()
		return m.list()
	default:
		m.input.edit(k)
	}
	return nil
}

func (m *Model) paste(text string) {
	switch {
	case m.input != nil:
		m.input.add(text)
	case m.question != nil && m.question.name != "":
		m.question.typed.add(text)
	}
}

// mayChange tells whether something may be changed now, and says why not.
func (m *Model) mayChange() bool {
	switch {
	case m.cfg.ReadOnly != "":
		m.said = m.cfg.ReadOnly
	case m.blind != "":
		m.said = "etcd does not answer: nothing can be changed now"
	case m.acting != "":
		m.said = "still " + m.acting
	default:
		return true
	}
	return false
}

func (m *Model) askPause(q Queue) {
	if !m.mayChange() {
		return
	}
	verb, doing, past := "Pause", "pausing queue ", "paused"
	if q.Paused {
		verb, doing, past = "Resume", "resuming queue ", "resumed"
	}
	m.question = &question{
		text: fmt.Sprintf("%s queue %s in %s?", verb, q.Name, m.cfg.Where), name: m.cfg.TypeName, doing: doing + q.Name,
		do: func(ctx context.Context) (string, error) {
			return "queue " + q.Name + " is " + past, m.cluster.SetPaused(ctx, q.Name, !q.Paused, q.Revision)
		},
	}
}

// findDead looks for the dead jobs, to ask about exactly those.
func (m *Model) findDead(q Queue) tea.Cmd {
	switch {
	case !m.mayChange():
		return nil
	case q.Dead == 0:
		m.said = "queue " + q.Name + " has no dead jobs"
		return nil
	}
	m.acting = "looking for the dead jobs of queue " + q.Name
	return m.ask(func(ctx context.Context) tea.Msg {
		f, err := m.cluster.FindDead(ctx, q.Name)
		return foundMsg{q.Name, f, err}
	})
}

func (m *Model) showFound(msg foundMsg) {
	m.acting, m.leaving = "", false
	switch {
	case msg.err != nil:
		m.said = m.cluster.Explain(msg.err)
	case msg.found.Count == 0:
		m.said = "queue " + msg.queue + " has no dead jobs that can be retried"
	case m.question != nil || m.input != nil:
		m.said = "" // somebody is at something else by now
	default:
		these := "1 dead job"
		if msg.found.Count > 1 {
			these = fmt.Sprintf("%d dead jobs", msg.found.Count)
		}
		m.question = &question{
			text: fmt.Sprintf("Retry %s of queue %s in %s: %s?", these, msg.queue, m.cfg.Where, msg.found.About),
			name: m.cfg.TypeName, doing: "retrying " + these + " of queue " + msg.queue, do: msg.found.Retry,
		}
	}
}

// answer is a key while a question is asked.
func (m *Model) answer(k tea.KeyPressMsg) tea.Cmd {
	q := m.question
	yes := false
	switch {
	case k.String() == "esc":
		m.question = nil
	case q.name == "":
		yes = k.String() == "y" || k.String() == "Y"
		m.question = nil
	case k.String() == "enter":
		yes = q.typed.text == q.name
		m.question = nil
	default:
		q.typed.edit(k)
		return nil
	}
	if !yes {
		m.said = "not confirmed, nothing changed"
		return nil
	}
	m.said, m.acting = "", q.doing
	return m.ask(func(ctx context.Context) tea.Msg {
		said, err := q.do(ctx)
		if err != nil {
			said = q.doing + ": " + m.cluster.Explain(err)
		}
		m.outcome.Store(&said)
		return actedMsg{said}
	})
}
