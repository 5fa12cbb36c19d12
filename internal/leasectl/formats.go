package leasectl

import (
	"os"

	"golang.org/x/term"
)

// The output formats. A verb names those that it offers, its default first.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatName  = "name"
	formatCSV   = "csv"
	formatSVG   = "svg" // of top alone
)

var (
	// listFormats are what every verb offers that shows items.
	listFormats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatName, formatCSV}
	// resultFormats are what a verb offers that says what it did.
	resultFormats = []string{formatTable, formatJSON, formatName}
)

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// describeFormats are what a verb offers that describes one thing to people, and to programs as get does.
var describeFormats = []string{formatTable, formatJSON, formatYAML}
