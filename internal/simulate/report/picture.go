package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// The measures of a picture.
const (
	pictureInset px = 18
	headRoom     px = 30 // above a timeline, for its name
	legendPitch  px = 22
	legendWidth  px = 350
	cellWidth    px = 7.8
	cellHeight   px = 17
	cellFoot     px = 4.5 // of a row, below the letters
)

// pictureView is what the template sees of a picture.
type pictureView struct {
	Style            template.CSS
	Title            string
	Width, Height    px
	GroundW, GroundH px
	Lines            []lineOfPicture
	Outcomes         []legendView[outcomeLook]
	Kinds            []legendView[kindLook]
	Grounds, Words   []wordView
}

// lineOfPicture is a timeline and where it stands.
type lineOfPicture struct {
	*timelineView
	X, Y, HeadY px
}

type legendView[T any] struct {
	Look T
	X, Y px
}

// wordView is a piece of a screen, laid out.
type wordView struct {
	X, Y, W, H px
	Tone, Text string
}

// Piece is text in one tone.
type Piece struct {
	// Text is one cell a letter: who has wider ones sets them apart.
	Text string
	// Column is the cell that it begins in.
	Column int
	// Tone is title, heading, chosen, good, warn, bad, or empty. A title is as wide as
	// the screen.
	Tone string
}

// Screen is what a terminal shows, row by row.
type Screen struct {
	// Title says what it is, for those who cannot see it.
	Title string
	// Width is how many cells a row has.
	Width int
	Rows  [][]Piece
}

// RenderTimelines writes the timelines of p and their legend as one SVG document.
// Its errors are those of [Render].
func RenderTimelines(w io.Writer, p Page) error {
	view := pictureView{Title: p.Title, Width: lineWidth + 2*pictureInset}
	y := pictureInset
	for i, t := range p.Timelines {
		drawn := newTimelineView(i, t, sharedRange(p.Timelines, t.Scenario))
		view.Lines = append(view.Lines, lineOfPicture{drawn, pictureInset, y + headRoom, y + 17})
		y += headRoom + drawn.Height + 10
	}
	outcomes, kinds := legendOf(p.Timelines)
	view.Outcomes, y = placeLegend(outcomes, y)
	view.Kinds, y = placeLegend(kinds, y)
	view.Height = y + pictureInset/2
	return view.write(w)
}

// placeLegend sets the looks in rows and returns where the next begins.
func placeLegend[T any](looks []T, y px) (placed []legendView[T], below px) {
	const columns = 3
	for i, look := range looks {
		if i > 0 && i%columns == 0 {
			y += legendPitch
		}
		placed = append(placed, legendView[T]{look, pictureInset + px(i%columns)*legendWidth, y})
	}
	return placed, y + legendPitch
}

// RenderScreen writes a screen as one SVG document. Its errors are those of [Render].
func RenderScreen(w io.Writer, s Screen) error {
	view := pictureView{
		Title: s.Title, Width: px(s.Width)*cellWidth + 2*pictureInset, Height: px(len(s.Rows))*cellHeight + 2*pictureInset,
	}
	for i, row := range s.Rows {
		top := pictureInset + px(i)*cellHeight
		for _, piece := range row {
			if piece.Tone == "title" {
				view.Grounds = append(view.Grounds, wordView{X: pictureInset - 6, Y: top, W: px(s.Width)*cellWidth + 12, H: cellHeight})
			}
			view.Words = append(view.Words, wordsOf(piece, top+cellHeight-cellFoot)...)
		}
	}
	return view.write(w)
}

// wordsOf sets what wide gaps part by itself, so that columns stand under each other in
// whatever font the reader has.
func wordsOf(p Piece, y px) (words []wordView) {
	const gap = "  "
	at := p.Column
	for text := p.Text; text != ""; {
		trimmed := strings.TrimLeft(text, " ")
		at += len(text) - len(trimmed)
		word, _, _ := strings.Cut(trimmed, gap)
		text = trimmed[len(word):]
		if word = strings.TrimRight(word, " "); word == "" {
			continue
		}
		cells := utf8.RuneCountInString(word)
		words = append(words, wordView{X: pictureInset + px(at)*cellWidth, Y: y, W: px(cells) * cellWidth, Tone: p.Tone, Text: word})
		at += cells
	}
	return words
}

func (v pictureView) write(w io.Writer) error {
	v.Style = template.CSS(drawingStyle)
	v.GroundW, v.GroundH = v.Width-1, v.Height-1
	if err := picture.Execute(w, v); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
