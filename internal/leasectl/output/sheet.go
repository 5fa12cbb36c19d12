package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
)

// Sheet is a description: labelled lines, and tables among them. What stands in a job cannot break its lines.
type Sheet struct{ rows [][]string }

// Line adds a labelled line; without text it is left out.
func (s *Sheet) Line(label, format string, args ...any) {
	if text := escape.Text(fmt.Sprintf(format, args...)); text != "" {
		s.rows = append(s.rows, []string{label, text})
	}
}

// Block adds a text of several lines, each as it is.
func (s *Sheet) Block(label, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	for _, line := range escape.Block(text) {
		s.rows = append(s.rows, []string{label, line})
		label = ""
	}
}

// Table adds rows under one label, in columns of their own.
func (s *Sheet) Table(label string, rows [][]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = OneCell(row[i])
		}
	}
	for _, text := range aligned(rows) {
		s.rows = append(s.rows, []string{label, strings.TrimRight(text, " ")})
		label = ""
	}
}

// print writes the lines, the texts under each other.
func (s *Sheet) print(w io.Writer) error {
	wide := 0
	for _, r := range s.rows {
		wide = max(wide, len(r[0]))
	}
	for _, r := range s.rows {
		if err := Write(w, fmt.Sprintf("%-*s  %s\n", wide, r[0], r[1])); err != nil {
			return err
		}
	}
	return nil
}

// PrintSheet prints a description, or the item that it describes.
func PrintSheet(w io.Writer, format string, item any, s *Sheet) error {
	switch format {
	case JSON:
		return PrintJSON(w, item)
	case YAML:
		return PrintYAML(w, item)
	}
	return s.print(w)
}
