package top

import (
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

// toneNames are what a picture calls the tones.
var toneNames = map[tone]string{title: "title", heading: "heading", chosen: "chosen", good: "good", warn: "warn", bad: "bad"}

// Picture writes the screen as it is as an SVG document.
func (m *Model) Picture(w io.Writer) error {
	s := report.Screen{Title: "leasectl top: " + m.cfg.Title, Width: m.width}
	for _, l := range m.lines() {
		var row []report.Piece
		column := 0
		for _, part := range l.cut(m.width) {
			row = append(row, report.Piece{Text: part.text, Column: column, Tone: toneNames[part.tone]})
			column += ansi.StringWidth(part.text)
		}
		s.Rows = append(s.Rows, row)
	}
	return report.RenderScreen(w, s)
}
