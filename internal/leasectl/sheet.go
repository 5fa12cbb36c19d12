package leasectl

import (
	"fmt"
	"io"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// sheet is a description: labelled lines, and tables among them. What stands in a job cannot break its lines.
type sheet struct{ rows [][]string }

// line adds a labelled line; without text it is left out.
func (s *sheet) line(label, format string, args ...any) {
	if text := escape.Text(fmt.Sprintf(format, args...)); text != "" {
		s.rows = append(s.rows, []string{label, text})
	}
}

// block adds a text of several lines, each as it is.
func (s *sheet) block(label, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	for _, line := range escape.Block(text) {
		s.rows = append(s.rows, []string{label, line})
		label = ""
	}
}

// table adds rows under one label, in columns of their own.
func (s *sheet) table(label string, rows [][]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = oneCell(row[i])
		}
	}
	for _, text := range aligned(rows) {
		s.rows = append(s.rows, []string{label, strings.TrimRight(text, " ")})
		label = ""
	}
}

// print writes the lines, the texts under each other.
func (s *sheet) print(w io.Writer) error {
	wide := 0
	for _, r := range s.rows {
		wide = max(wide, len(r[0]))
	}
	for _, r := range s.rows {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", wide, r[0], r[1]); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// printSheet prints a description, or the item that it describes.
func printSheet(w io.Writer, format string, item any, s *sheet) error {
	switch format {
	case formatJSON:
		return printJSON(w, item)
	case formatYAML:
		return printYAML(w, item)
	}
	return s.print(w)
}
