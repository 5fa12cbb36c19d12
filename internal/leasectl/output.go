package leasectl

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// The output formats. A verb names those that it offers, its default first.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatName  = "name"
)

var allFormats = []string{formatTable, formatJSON, formatName}

// format returns the output format for a verb that offers these, the default first. A format that the verb does not
// offer is an error on the command line, but not in the environment, which speaks to all verbs.
func (a *app) format(offered ...string) (string, error) {
	asked := a.settings.output
	switch {
	case asked == "":
		return offered[0], nil
	case slices.Contains(offered, asked):
		return asked, nil
	case slices.Contains(allFormats, asked) && a.settings.source("output") != "--output":
		return offered[0], nil
	default:
		return "", usagef("-o "+offered[0], "%s is %q: this command offers %s",
			a.settings.source("output"), asked, strings.Join(offered, ", "))
	}
}

// column is one column of a table: its heading in capitals and how an item fills it. NAME or ID comes first, AGE last.
type column[T any] struct {
	head string
	cell func(T) string
}

// view is how items of one kind are printed.
type view[T any] struct {
	columns []column[T]
	name    func(T) string // what -o name prints, such as job/mail/01J9X4
}

// printList prints items in the format. JSON is {"items":[...]}, also when there are none; a table without items is
// its heading. Cells are never cut.
func printList[T any](w io.Writer, format string, v view[T], items []T) error {
	switch format {
	case formatJSON:
		if items == nil {
			items = []T{}
		}
		return printJSON(w, struct {
			Items []T `json:"items"`
		}{items})
	case formatName:
		return printNames(w, v, items)
	default:
		return printTable(w, v, items)
	}
}

// printItem prints one item; JSON is the item itself.
func printItem[T any](w io.Writer, format string, v view[T], item T) error {
	if format == formatJSON {
		return printJSON(w, item)
	}
	return printList(w, format, v, []T{item})
}

func printNames[T any](w io.Writer, v view[T], items []T) error {
	for _, item := range items {
		if _, err := fmt.Fprintln(w, v.name(item)); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

func printTable[T any](w io.Writer, v view[T], items []T) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cell func(column[T]) string) {
		for i, c := range v.columns {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, oneCell(cell(c)))
		}
		fmt.Fprintln(tw)
	}
	row(func(c column[T]) string { return c.head })
	for _, item := range items {
		row(func(c column[T]) string { return c.cell(item) })
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// oneCell keeps a row in one line and an empty cell visible to tools that split at spaces.
func oneCell(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f { // a terminal must not obey what stands in a job
			return ' '
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text
}

func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// notef writes one line for people to stderr.
func (a *app) notef(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

// colourful reports whether colours may go to w: only to a terminal, and not against NO_COLOR or a dumb one.
func colourful(w io.Writer, getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printLine writes one line of data to stdout.
func (a *app) printLine(line string) error {
	if _, err := fmt.Fprintln(a.out, line); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
