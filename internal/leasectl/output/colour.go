package output

// When colours are used: --color.
const (
	ColourAuto   = "auto"
	ColourAlways = "always"
	ColourNever  = "never"
)

// ColourModes are all of them.
var ColourModes = []string{ColourAuto, ColourAlways, ColourNever}

// The colours of cells, as terminals know them. All are as long as each other, so that columns stay under each other.
const (
	plainCell  = "39"
	goodCell   = "32"
	busyCell   = "36"
	warnCell   = "33"
	badCell    = "31"
	asideCell  = "90"
	colourHead = "\x1b["
	colourTail = "\x1b[0m"
)

// stateColours are the colours of states, by the word that stands for them.
var stateColours = map[string]string{
	"done": goodCell, "live": goodCell,
	"claimed": busyCell, "held": busyCell, "leader": busyCell,
	"retry": warnCell, "unlisted": warnCell,
	"dead": badCell, "orphan": badCell, "LOST": badCell,
	"scheduled": asideCell, "cancelled": asideCell, "free": asideCell, "none": asideCell,
}

// paint colours a cell of a column that has states; every cell of such a column is painted.
func (p Printer) paint(head, text string) string {
	colour := plainCell
	switch {
	case !p.Colour || head != "STATE" && head != "PAUSED":
		return text
	case head == "PAUSED" && text == "yes":
		colour = warnCell
	case head == "STATE" && stateColours[text] != "":
		colour = stateColours[text]
	}
	return colourHead + colour + "m" + text + colourTail
}
