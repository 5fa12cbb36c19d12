package output

import (
	"os"

	"golang.org/x/term"
)

// The output formats. A verb names those that it offers, its default first.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	JSONL = "jsonl"
	YAML  = "yaml"
	Name  = "name"
	CSV   = "csv"
	SVG   = "svg" // of top alone
)

var (
	// ListFormats are what every verb offers that shows items.
	ListFormats = []string{Table, Wide, JSON, JSONL, YAML, Name, CSV}
	// ResultFormats are what a verb offers that says what it did.
	ResultFormats = []string{Table, JSON, Name}
)

// IsTerminal tells whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// DescribeFormats are what a verb offers that describes one thing to people, and to programs as get does.
var DescribeFormats = []string{Table, JSON, YAML}
