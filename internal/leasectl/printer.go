package leasectl

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"sigs.k8s.io/yaml"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// column is one column of a table: its heading in capitals and how an item fills it. NAME or ID comes first, AGE last.
type column[T any] struct {
	head string
	cell func(T) string
}

// view is how items of one kind are printed.
type view[T any] struct {
	columns []column[T]
	name    func(T) string // what -o name prints, such as job/mail/01J9X4
	// wide are the columns that only -o wide and --columns show, before the last of columns, which is the age.
	wide []column[T]
}

// printer is where and how items are printed.
type printer struct {
	w         io.Writer
	format    string
	columns   []string // headings asked for with --columns; none for the default ones
	noHeaders bool
	colour    bool // states are coloured
}

// all returns every column that a table of these items can have.
func (v view[T]) all() []column[T] {
	last := max(len(v.columns)-1, 0)
	return slices.Concat(v.columns[:last], v.wide, v.columns[last:])
}

// pick returns the columns to print. An unknown heading is a usage error that names those that exist.
func (v view[T]) pick(p printer) ([]column[T], error) {
	if len(p.columns) == 0 {
		if p.format == formatTable {
			return v.columns, nil
		}
		return v.all(), nil
	}
	var picked []column[T]
	for _, want := range p.columns {
		i := slices.IndexFunc(v.all(), func(c column[T]) bool { return strings.EqualFold(c.head, want) })
		if i < 0 {
			return nil, usagef("--columns "+strings.Join(v.heads(), ","), "--columns has %q, which is none of the columns", want)
		}
		picked = append(picked, v.all()[i])
	}
	return picked, nil
}

func (v view[T]) heads() (heads []string) {
	for _, c := range v.all() {
		heads = append(heads, c.head)
	}
	return heads
}

// printList prints items. JSON and YAML are {"items":[...]}, also when there are none; JSON lines are one object per
// item; a table without items is its heading. Cells are never cut.
func printList[T any](p printer, v view[T], items []T) error {
	if items == nil {
		items = []T{}
	}
	whole := struct {
		Items []T `json:"items"`
	}{items}
	switch p.format {
	case formatJSON:
		return printJSON(p.w, whole)
	case formatYAML:
		return printYAML(p.w, whole)
	}
	return printRows(p, v, items)
}

// printItem prints one item; JSON and YAML are the item itself.
func printItem[T any](p printer, v view[T], item T) error {
	switch p.format {
	case formatJSON:
		return printJSON(p.w, item)
	case formatYAML:
		return printYAML(p.w, item)
	}
	return printRows(p, v, []T{item})
}

// printRows prints the formats of one line per item.
func printRows[T any](p printer, v view[T], items []T) error {
	switch p.format {
	case formatName:
		return printNames(p.w, v, items)
	case formatJSONL:
		return printLines(p.w, items)
	}
	columns, err := v.pick(p)
	if err != nil {
		return err
	}
	if p.format == formatCSV {
		return printCSV(p, columns, items)
	}
	return printTable(p, columns, items)
}

func printNames[T any](w io.Writer, v view[T], items []T) error {
	for _, item := range items {
		if _, err := fmt.Fprintln(w, escape.Text(v.name(item))); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

func printLines[T any](w io.Writer, items []T) error {
	for _, item := range items {
		b, err := encodeJSON(item, "")
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// cells returns the headings and the rows of a table.
func cells[T any](p printer, columns []column[T], items []T, clean func(string) string) (rows [][]string) {
	row := func(cell func(column[T]) string) {
		var r []string
		for _, c := range columns {
			r = append(r, p.paint(c.head, clean(cell(c))))
		}
		rows = append(rows, r)
	}
	if !p.noHeaders {
		row(func(c column[T]) string { return c.head })
	}
	for _, item := range items {
		row(func(c column[T]) string { return c.cell(item) })
	}
	return rows
}

func printTable[T any](p printer, columns []column[T], items []T) error {
	for _, line := range aligned(cells(p, columns, items, oneCell)) {
		if _, err := fmt.Fprintln(p.w, line); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// aligned lays rows out in columns, by the cells of a terminal that their texts take. The last cell of a row is as wide as
// it is, and widens no column.
func aligned(rows [][]string) (lines []string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:max(len(row)-1, 0)] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)+2))
			}
		}
		lines = append(lines, b.String())
	}
	return lines
}

func printCSV[T any](p printer, columns []column[T], items []T) error {
	if err := csv.NewWriter(p.w).WriteAll(cells(p, columns, items, inertCell)); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// oneCell keeps a row in one line and an empty cell visible to tools that split at spaces.
func oneCell(text string) string {
	if text = escape.Text(text); text == "" {
		return "-"
	}
	return text
}

// inertCell keeps a spreadsheet from taking what stands in a job for a formula.
func inertCell(text string) string {
	text = escape.Text(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}

func printJSON(w io.Writer, value any) error {
	b, err := encodeJSON(value, "  ")
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// encodeJSON is value and a newline. What a terminal would obey is escaped in it.
func encodeJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return escape.JSON(b.Bytes()), nil
}

// printYAML prints what printJSON would, as YAML: the field names and the strings for big numbers are the same. Where YAML
// would print what a terminal obeys, it is in the form of JSON, which is YAML too.
func printYAML(w io.Writer, value any) error {
	b, err := encodeJSON(value, "  ")
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(b)
	if err != nil {
		return fmt.Errorf("convert output to YAML: %w", err)
	}
	if !bytes.Equal(escape.JSON(text), text) {
		text = b
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
