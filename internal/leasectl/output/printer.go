// Package output prints: tables and descriptions for people, JSON, YAML, CSV and names for programs, and what --jq and
// templates make of them.
package output

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"sigs.k8s.io/yaml"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Column is one column of a table: its heading in capitals and how an item fills it. NAME or ID comes first, AGE last.
type Column[T any] struct {
	Head string
	Cell func(T) string
}

// View is how items of one kind are printed.
type View[T any] struct {
	Columns []Column[T]
	Name    func(T) string // what -o name prints, such as job/mail/01J9X4
	// Wide are the columns that only -o wide and --columns show, before the last of columns, which is the age.
	Wide []Column[T]
}

// Printer is where and how items are printed.
type Printer struct {
	W         io.Writer
	Format    string
	Columns   []string // headings asked for with --columns; none for the default ones
	NoHeaders bool
	Colour    bool // states are coloured
}

// all returns every column that a table of these items can have.
func (v View[T]) all() []Column[T] {
	last := max(len(v.Columns)-1, 0)
	return slices.Concat(v.Columns[:last], v.Wide, v.Columns[last:])
}

// Pick returns the columns to print. An unknown heading is a usage error that names those that exist.
func (v View[T]) Pick(p Printer) ([]Column[T], error) {
	if len(p.Columns) == 0 {
		if p.Format == Table {
			return v.Columns, nil
		}
		return v.all(), nil
	}
	var picked []Column[T]
	for _, want := range p.Columns {
		i := slices.IndexFunc(v.all(), func(c Column[T]) bool { return strings.EqualFold(c.Head, want) })
		if i < 0 {
			return nil, exit.Usagef("--columns "+strings.Join(v.heads(), ","), "--columns has %q, which is none of the columns", want)
		}
		picked = append(picked, v.all()[i])
	}
	return picked, nil
}

func (v View[T]) heads() (heads []string) {
	for _, c := range v.all() {
		heads = append(heads, c.Head)
	}
	return heads
}

// PrintList prints items. JSON and YAML are {"items":[...]}, also when there are none; JSON lines are one object per
// item; a table without items is its heading. Cells are never cut.
func PrintList[T any](p Printer, v View[T], items []T) error {
	if items == nil {
		items = []T{}
	}
	whole := struct {
		Items []T `json:"items"`
	}{items}
	switch p.Format {
	case JSON:
		return PrintJSON(p.W, whole)
	case YAML:
		return PrintYAML(p.W, whole)
	}
	return PrintRows(p, v, items)
}

// PrintItem prints one item; JSON and YAML are the item itself.
func PrintItem[T any](p Printer, v View[T], item T) error {
	switch p.Format {
	case JSON:
		return PrintJSON(p.W, item)
	case YAML:
		return PrintYAML(p.W, item)
	}
	return PrintRows(p, v, []T{item})
}

// PrintRows prints the formats of one line per item.
func PrintRows[T any](p Printer, v View[T], items []T) error {
	switch p.Format {
	case Name:
		return printNames(p.W, v, items)
	case JSONL:
		return PrintLines(p.W, items)
	}
	columns, err := v.Pick(p)
	if err != nil {
		return err
	}
	if p.Format == CSV {
		return printCSV(p, columns, items)
	}
	return printTable(p, columns, items)
}

func printNames[T any](w io.Writer, v View[T], items []T) error {
	for _, item := range items {
		if err := Write(w, escape.Text(v.Name(item))+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// PrintLines prints items as JSON, one in a line.
func PrintLines[T any](w io.Writer, items []T) error {
	for _, item := range items {
		b, err := EncodeJSON(item, "")
		if err != nil {
			return err
		}
		if err := Write(w, string(b)); err != nil {
			return err
		}
	}
	return nil
}

// cells returns the headings and the rows of a table.
func cells[T any](p Printer, columns []Column[T], items []T, clean func(string) string) (rows [][]string) {
	row := func(cell func(Column[T]) string) {
		var r []string
		for _, c := range columns {
			r = append(r, p.paint(c.Head, clean(cell(c))))
		}
		rows = append(rows, r)
	}
	if !p.NoHeaders {
		row(func(c Column[T]) string { return c.Head })
	}
	for _, item := range items {
		row(func(c Column[T]) string { return c.Cell(item) })
	}
	return rows
}

func printTable[T any](p Printer, columns []Column[T], items []T) error {
	for _, line := range aligned(cells(p, columns, items, OneCell)) {
		if err := Write(p.W, line+"\n"); err != nil {
			return err
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

func printCSV[T any](p Printer, columns []Column[T], items []T) error {
	if err := csv.NewWriter(p.W).WriteAll(cells(p, columns, items, inertCell)); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// OneCell keeps a row in one line and an empty cell visible to tools that split at spaces.
func OneCell(text string) string {
	return cmp.Or(escape.Text(text), "-")
}

// inertCell keeps a spreadsheet from taking what stands in a job for a formula.
func inertCell(text string) string {
	text = escape.Text(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}

// PrintJSON prints a value as JSON for people to read.
func PrintJSON(w io.Writer, value any) error {
	b, err := EncodeJSON(value, "  ")
	if err != nil {
		return err
	}
	return Write(w, string(b))
}

// EncodeJSON is value and a newline. What a terminal would obey is escaped in it.
func EncodeJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return escape.JSON(b.Bytes()), nil
}

// PrintYAML prints what PrintJSON would, as YAML: the field names and the strings for big numbers are the same. Where YAML
// would print what a terminal obeys, it is in the form of JSON, which is YAML too.
func PrintYAML(w io.Writer, value any) error {
	b, err := EncodeJSON(value, "  ")
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
	return Write(w, string(text))
}

// Write writes text as it is.
func Write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
