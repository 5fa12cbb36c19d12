package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
)

// TextOptions says what the text is for.
type TextOptions struct {
	// Fixing leaves out the advice where there is an automatic repair, since its plan follows.
	Fixing bool
	// Colour colours what each line begins with.
	Colour bool
}

// shown is how many findings of one kind are named.
const shown = 3

// Text writes the findings for people.
func (r *Report) Text(w io.Writer, o TextOptions) error {
	var b strings.Builder
	b.WriteString(r.okLine())
	for _, group := range r.groups() {
		b.WriteString(escape.Text(group.line(o)) + "\n")
	}
	for _, c := range r.Unknown() {
		fmt.Fprintf(&b, "-     %s not checked: %s\n", c.Code, escape.Text(c.Note))
	}
	if !o.Fixing {
		b.WriteString(r.Summary() + "\n")
	}
	text := b.String()
	if o.Colour {
		text = coloured(text)
	}
	return write(w, text)
}

// coloured colours the words with which lines begin.
func coloured(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for word, colour := range map[string]string{"ok": "32", "WARN": "33", "ERROR": "31"} {
			if rest, ok := strings.CutPrefix(line, word+" "); ok {
				lines[i] = "\x1b[" + colour + "m" + word + "\x1b[0m " + rest
			}
		}
	}
	return strings.Join(lines, "\n")
}

// okLine names what is well: with a note where there is one worth it, then the others together.
func (r *Report) okLine() string {
	var parts, plain []string
	said := map[string]bool{}
	for _, c := range Checks() {
		said[c.Code] = c.say
	}
	for _, c := range r.Checks {
		switch {
		case c.Status != StatusOK:
		case said[c.Code] && c.Note != "":
			parts = append(parts, c.Code+" "+escape.Text(c.Note))
		default:
			plain = append(plain, c.Code)
		}
	}
	if len(plain) > 0 {
		parts = append(parts, strings.Join(plain, " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "ok    " + strings.Join(parts, "     ok  ") + "\n"
}

// group is what is said in one line.
type group struct {
	check    *Check
	severity Severity
	found    []*Finding
}

// groups puts findings of one code and severity together, where its check has a headline for many.
func (r *Report) groups() (groups []*group) {
	for _, f := range r.Findings {
		if n := len(groups); n > 0 && f.check.many != "" && groups[n-1].check == f.check && groups[n-1].severity == f.Severity {
			groups[n-1].found = append(groups[n-1].found, f)
			continue
		}
		groups = append(groups, &group{f.check, f.Severity, []*Finding{f}})
	}
	return groups
}

func (g *group) line(o TextOptions) string {
	level := "WARN"
	if g.severity == Error {
		level = "ERROR"
	}
	var details []string
	for _, f := range g.found {
		details = append(details, f.Detail)
	}
	line := fmt.Sprintf("%-5s %s %-38s", level, g.check.Code, g.check.headline(g.found))
	if d := some(details, shown); d != "" {
		line += "  " + d
	}
	first := g.found[0]
	switch {
	case o.Fixing && first.Plan == "":
		line += "      (no automatic fix)"
	case !o.Fixing && first.Plan != "":
		line += "      run: leasectl doctor --fix"
	case !o.Fixing && first.Advice != "":
		line += "      run: " + first.Advice
	}
	return strings.TrimRight(line, " ")
}

// Plan lists what the repairs would do, in one line each.
func (r *Report) Plan(w io.Writer) {
	todo := r.Fixable()
	fmt.Fprintln(w, "Plan (guarded by the revisions above):")
	for i, f := range todo {
		if i == 20 {
			fmt.Fprintf(w, "  ... and %d more\n", len(todo)-i)
			break
		}
		fmt.Fprintf(w, "  %d. %s\n", i+1, escape.Text(f.Plan))
	}
}

// Outcome writes what became of the repairs, and what is left.
func (r *Report) Outcome(w io.Writer) error {
	var lines []string
	for _, f := range r.Findings {
		switch f.Status {
		case Fixed:
			lines = append(lines, fmt.Sprintf("fixed %s %s", f.Code, escape.Text(f.Done)))
		case Failed:
			lines = append(lines, fmt.Sprintf("FAILED %s %s: %s", f.Code, escape.Text(f.Subject), escape.Text(f.Error)))
		}
	}
	if n := len(lines); n > 0 && r.FixedN > 0 {
		lines[n-1] = fmt.Sprintf("%-50s %s", lines[n-1], r.Summary())
	} else {
		lines = append(lines, r.Summary())
	}
	return write(w, strings.Join(lines, "\n")+"\n")
}

// Summary counts.
func (r *Report) Summary() string {
	var parts []string
	left := ""
	if r.FixedN > 0 {
		parts = append(parts, fmt.Sprintf("%d fixed", r.FixedN))
		left = " left"
	}
	for _, n := range []struct {
		n    int
		what string
	}{{r.Errors, "error"}, {r.Warnings, "warning"}} {
		switch {
		case n.n == 1:
			parts = append(parts, "1 "+n.what+left)
		case n.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss%s", n.n, n.what, left))
		}
	}
	if n := len(r.Unknown()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not checked", n))
	}
	if len(parts) == 0 {
		return "no problems found"
	}
	return strings.Join(parts, ", ")
}
