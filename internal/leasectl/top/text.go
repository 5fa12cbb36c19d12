package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/leasekit/leasekit/internal/escape"
)

// tone is how a piece of text stands out, where there are colours.
type tone int

const (
	plain tone = iota
	title
	heading
	chosen
	good
	warn
	bad
)

var styles = map[tone]lipgloss.Style{
	title:   lipgloss.NewStyle().Reverse(true),
	heading: lipgloss.NewStyle().Faint(true),
	chosen:  lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan),
	good:    lipgloss.NewStyle().Foreground(lipgloss.Green),
	warn:    lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	bad:     lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
}

// span is a piece of a line in one tone, line what stands in one row of the screen.
type (
	span struct {
		text string
		tone tone
	}
	line []span
)

func lineOf(t tone, format string, args ...any) line {
	return line{{fmt.Sprintf(format, args...), t}}
}

// draw is the line, cut to the width.
func (l line) draw(width int, colour bool) string {
	var b strings.Builder
	for _, s := range l.cut(width) {
		text := s.text
		if style, styled := styles[s.tone]; colour && styled && text != "" {
			text = style.Render(text)
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// cut is the line, as much of it as has room. Text cannot command the terminal.
func (l line) cut(width int) (cut line) {
	for _, s := range l {
		text := ansi.Truncate(escape.Text(s.text), max(width, 0), "…")
		width -= ansi.StringWidth(text)
		cut = append(cut, span{text, s.tone})
	}
	return cut
}

// pad cuts or fills text to the width; a negative width puts it to the right.
func pad(width int, text string) string {
	w := width
	if w < 0 {
		w = -w
	}
	text = ansi.Truncate(escape.Text(text), w, "…")
	gap := strings.Repeat(" ", w-ansi.StringWidth(text))
	if width < 0 {
		return gap + text
	}
	return text + gap
}

// padded is cells side by side: each a width, as pad takes it, and a text.
func padded(cells ...any) string {
	var parts []string
	for i := 0; i+1 < len(cells); i += 2 {
		parts = append(parts, pad(cells[i].(int), fmt.Sprint(cells[i+1])))
	}
	return strings.Join(parts, " ")
}

// wrapped breaks text into lines at spaces.
func wrapped(text string, width int) []string {
	return strings.Split(ansi.Wrap(escape.Text(text), max(width, 1), ""), "\n")
}

// short is a count that fits a column.
func short(n int) string {
	switch {
	case n < 100_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}

// bar draws how much of a whole is used.
func bar(used, whole, width int) string {
	if whole <= 0 || width <= 0 {
		return ""
	}
	full := min(used*width/whole, width)
	if used > 0 {
		full = max(full, 1)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// share gives n rows to those who want them: first what each needs, then one after the other one more.
func share(n int, needs, wants []int) []int {
	got := make([]int, len(wants))
	give := func(i, rows int) {
		rows = max(min(rows, wants[i]-got[i], n), 0)
		got[i] += rows
		n -= rows
	}
	for i, need := range needs {
		give(i, need)
	}
	for before := -1; n > 0 && before != n; {
		before = n
		for i := range wants {
			give(i, 1)
		}
	}
	return got
}

// window is the part of n rows to show so that the chosen one is seen.
func window(n, chosen, rows int) (from, to int) {
	rows = max(rows, 0)
	from = max(min(chosen-rows/2, n-rows), 0)
	return from, min(from+rows, n)
}
