package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	minWidth, minHeight = 60, 14
	// wideEnough is the width from which workers stand beside queues.
	wideEnough = 118
	// slowLook is the age from which what was counted is said to be old.
	slowLook = 10 * time.Second
)

// View implements [tea.Model].
func (m *Model) View() tea.View {
	v := tea.NewView(m.Frame())
	v.AltScreen = true
	return v
}

// Frame draws the screen as it is: as many lines as it is high.
func (m *Model) Frame() string {
	drawn := make([]string, m.height)
	for i, l := range m.lines() {
		drawn[i] = l.draw(m.width, m.cfg.Colour)
	}
	return strings.Join(drawn, "\n")
}

// lines are what stands on the screen, no more of them than it is high.
func (m *Model) lines() []line {
	var all []line
	switch {
	case m.width < minWidth || m.height < minHeight:
		all = m.tooSmall()
	case m.screen == helpScreen:
		all = m.framed(m.helpBody)
	case m.screen == jobsScreen:
		all = m.framed(m.jobsBody)
	default:
		all = m.framed(m.queuesBody)
	}
	return all[:min(len(all), m.height)]
}

func (m *Model) tooSmall() []line {
	return []line{
		lineOf(warn, "%dx%d is too small:", m.width, m.height),
		lineOf(plain, "leasectl top needs %dx%d.", minWidth, minHeight),
		lineOf(plain, "q leaves"),
	}
}

// framed puts a body between what stands on every screen.
func (m *Model) framed(body func(rows int) []line) []line {
	troubles := m.troubles()
	troubles = troubles[:min(len(troubles), max(m.height/4, 3))] // the most important ones stand first
	all := append([]line{m.titleLine()}, troubles...)
	foot := m.foot()
	room := max(m.height-len(all)-len(foot), 0)
	middle := body(room)
	middle = middle[:min(len(middle), room)]
	all = append(all, middle...)
	for len(all) < m.height-len(foot) {
		all = append(all, nil)
	}
	return append(all, foot...)
}

// titleLine says what is looked at, and how fresh it is.
func (m *Model) titleLine() line {
	const hint = "q:quit ?:help"
	state := fmt.Sprintf("rev %d  %s", m.rev, m.freshness())
	room := m.width - len(hint) - len(state) - 4 - len("leasectl top  ")
	left := "leasectl top  " + strings.TrimRight(pad(max(room, 0), m.cfg.Title), " ") + "  " + state
	return lineOf(title, "%s", pad(m.width-len(hint)-1, left)+" "+hint)
}

func (m *Model) freshness() string {
	old := m.now.Sub(m.look.At)
	switch {
	case m.blind != "":
		return "STALE " + m.cfg.Age(old)
	case m.unseen != "":
		return "NOT WATCHED"
	case !m.live:
		return "once"
	case old > slowLook:
		return "live (watch), counted " + m.cfg.Age(old) + " ago"
	}
	return "live (watch)"
}

// shownProblems is how many problems are shown.
const shownProblems = 2

// troubles is what has to be known before the numbers are believed, and what is wrong in them.
func (m *Model) troubles() (all []line) {
	add := func(t tone, format string, args ...any) {
		lines := wrapped("! "+fmt.Sprintf(format, args...), m.width)
		for _, l := range lines[:min(len(lines), 2)] {
			all = append(all, lineOf(t, "%s", l))
		}
	}
	if m.blind != "" {
		add(bad, "what stands here is of %s, %s ago: %s", m.look.At.Format(time.TimeOnly), m.cfg.Age(m.now.Sub(m.look.At)), m.blind)
	}
	if m.unseen != "" {
		add(warn, "events and rates stand still, counts are looked at every few seconds: %s", m.unseen)
	}
	for _, note := range m.look.Notes[:min(len(m.look.Notes), shownProblems)] {
		all = append(all, lineOf(warn, "! %s", note))
	}
	for i, p := range m.look.Problems {
		if more := len(m.look.Problems) - i; i == shownProblems-1 && more > 1 {
			return append(all, lineOf(warn, "! %d more problems   run: leasectl status", more))
		}
		run := "   run: " + p.Run
		all = append(all, lineOf(warn, "! %s%s", strings.TrimRight(pad(max(m.width-2-ansi.StringWidth(run), 20), p.Code+" "+p.Message), " "), run))
	}
	return all
}

// foot is the question, the line that is typed, or the last message, and the keys.
func (m *Model) foot() (all []line) {
	add := func(t tone, text string) {
		lines := wrapped(text, m.width)
		for _, l := range lines[:min(len(lines), 5)] {
			all = append(all, lineOf(t, "%s", l))
		}
	}
	hints := "[p]ause [r]etry dead [/]filter [enter]jobs [tab]next [D]elete [P]urge: says how"
	switch {
	case m.question != nil && m.question.name != "":
		add(warn, m.question.text+" Type "+m.question.name+": "+m.question.typed.text+"_")
		hints = "[enter]confirm [esc]no"
	case m.question != nil:
		add(warn, m.question.text+" [y/N]")
		hints = "[y]es, any other key: no"
	case m.input != nil:
		if m.said != "" {
			add(bad, m.said)
		}
		add(chosen, "filter of queue "+m.queue+": "+m.input.text+"_")
		hints = "[enter]show [esc]leave it   state:dead kind:send* label.tenant:42 age:>1h attempt:>3"
	case m.acting != "" && m.said == "":
		add(good, m.acting+" ...")
	default:
		add(good, m.said)
	}
	if m.screen == jobsScreen && m.question == nil && m.input == nil {
		hints = "[esc]back [/]filter [enter]what tells more [p]ause [r]etry dead"
	}
	return append(all, lineOf(heading, "%s", hints))
}

func (m *Model) helpBody(int) []line {
	all := []line{nil}
	for _, k := range keys {
		all = append(all, lineOf(plain, "  %s %s", pad(14, k.Help().Key), k.Help().Desc))
	}
	return append(all, nil,
		lineOf(plain, "  Rates are of jobs done over a minute, since this runs; so are events."),
		lineOf(plain, "  A change happens only if what it is about is still as it is shown here."),
		lineOf(heading, "  any key goes back"))
}

// jobsBody is the jobs of the chosen queue.
func (m *Model) jobsBody(rows int) []line {
	filter := ""
	if m.filter != "" {
		filter = "   filter " + m.filter
	}
	head := "JOBS of " + m.queue + filter
	switch {
	case m.current() == nil:
		head += "   the queue is gone"
	case !m.listed && m.listErr == "":
		head += "   reading ..."
	case m.listed:
		count := fmt.Sprint(len(m.listing.Jobs))
		if m.listing.More {
			count = "the first " + count
		}
		head += fmt.Sprintf("   %s, read at %s", count, m.listing.At.Format(time.TimeOnly))
	}
	all := []line{lineOf(plain, "%s", head)}
	if m.listErr != "" {
		all = append(all, lineOf(bad, "! cannot be read now: %s", m.listErr))
	}
	all = append(all, lineOf(heading, "%s", "  "+padded(26, "ID", 10, "KIND", 9, "STATE", 7, "ATTEMPT", -5, "AGE")+" OWNER OR ERROR"))
	from, to := window(len(m.listing.Jobs), m.chosen, rows-len(all))
	for i, j := range m.listing.Jobs[from:to] {
		mark, t := "  ", plain
		if from+i == m.chosen {
			mark, t = "> ", chosen
		}
		text := padded(26, j.ID, 10, j.Kind, 9, j.State, 7, j.Attempt, -5, m.age(j.Enqueued))
		more := j.Owner
		if more == "" {
			more = j.Error
		}
		all = append(all, lineOf(t, "%s%s %s", mark, text, more))
	}
	return all
}

// age is how long ago that was, nothing when it was not.
func (m *Model) age(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return m.cfg.Age(m.now.Sub(at))
}
