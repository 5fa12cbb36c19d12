package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/escape"
)

// JSON writes the whole report.
func (r *Report) JSON(w io.Writer) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return write(w, string(escape.JSON(b.Bytes())))
}

// Markdown writes the report for a ticket or a page.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# leasectl doctor\n\nRoot `%s`, revision %s, %s: %s.\n", strings.ReplaceAll(escape.Text(r.Root), "`", "'"), cmp.Or(r.Revision, "-"), r.CheckedAt.Format(time.RFC3339), r.Summary())
	if len(r.Findings) > 0 {
		b.WriteString("\n| level | code | what | subject | detail | status | way out |\n|---|---|---|---|---|---|---|\n")
		for _, f := range r.Findings {
			way := f.Advice
			if f.Plan != "" {
				way = "leasectl doctor --fix: " + f.Plan
			}
			row := []string{string(f.Severity), f.Code, f.What, f.Subject, f.Detail, f.Status, way}
			for i := range row {
				row[i] = escape.Markdown(cmp.Or(row[i], "-"))
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	b.WriteString("\n| check | status | note |\n|---|---|---|\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Code, c.Status, escape.Markdown(cmp.Or(c.Note, "-")))
	}
	return write(w, b.String())
}

// Nagios writes the one line of a monitoring plugin and returns its exit code: 0 ok, 1 warning, 2 critical, 3 unknown.
func (r *Report) Nagios(w io.Writer) (code int, err error) {
	word := "OK"
	unseen := 0 // errors that only say that something was not seen
	for _, f := range r.Findings {
		if f.check == e6Permission && f.Status != Fixed {
			unseen++
		}
	}
	switch {
	case r.Errors > unseen:
		code, word = 2, "CRITICAL"
	case unseen > 0 || len(r.Unknown()) > 0:
		code, word = 3, "UNKNOWN"
	case r.Warnings > 0:
		code, word = 1, "WARNING"
	}
	text := r.Summary()
	var heads []string
	for _, g := range r.groups() {
		heads = append(heads, g.check.Code+" "+g.check.headline(g.found))
	}
	if len(heads) > 0 {
		text += ": " + some(heads, 5)
	}
	return code, NagiosLine(w, word, text, fmt.Sprintf("errors=%d;;1 warnings=%d;1", r.Errors, r.Warnings))
}

// NagiosLine writes what a monitoring plugin says; perf may be empty.
func NagiosLine(w io.Writer, word, text, perf string) error {
	text = strings.ReplaceAll(escape.Text(text), "|", "/")
	if perf != "" {
		perf = " | " + perf
	}
	return write(w, fmt.Sprintf("LEASEKIT %s - %s%s\n", word, text, perf))
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Prometheus writes gauges for a textfile collector. Subjects are no labels: they would be too many.
func (r *Report) Prometheus(w io.Writer) error {
	var b strings.Builder
	head := func(name, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	}
	head("leasekit_doctor_findings", "Findings of leasectl doctor that are not fixed.")
	for _, c := range Checks() {
		n := map[Severity]int{}
		for _, f := range r.Findings {
			if f.Code == c.Code && f.Status != Fixed {
				n[f.Severity]++
			}
		}
		for _, s := range []Severity{Error, Warning} {
			if n[s] > 0 || s == c.Severity {
				fmt.Fprintf(&b, "leasekit_doctor_findings{code=%q,severity=%q} %d\n", c.Code, string(s), n[s])
			}
		}
	}
	head("leasekit_doctor_check_done", "1 when the check was made, 0 when it was skipped or could not be made.")
	for _, c := range r.Checks {
		done := 1
		if c.Status == StatusSkipped || c.Status == StatusUnknown {
			done = 0
		}
		fmt.Fprintf(&b, "leasekit_doctor_check_done{code=%q} %d\n", c.Code, done)
	}
	head("leasekit_doctor_last_run_timestamp_seconds", "When leasectl doctor last ran.")
	fmt.Fprintf(&b, "leasekit_doctor_last_run_timestamp_seconds %d\n", r.CheckedAt.Unix())
	head("leasekit_doctor_duration_seconds", "How long leasectl doctor took.")
	fmt.Fprintf(&b, "leasekit_doctor_duration_seconds %.3f\n", r.Took.Seconds())
	return write(w, b.String())
}
