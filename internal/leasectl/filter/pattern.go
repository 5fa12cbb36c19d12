package filter

import "strings"

// pattern is text in which a star stands for any text, also none: what is between the stars.
type pattern []string

// parsePatterns reads patterns between commas. In quotes, commas and stars stand for themselves.
func parsePatterns(value string, fold bool) (patterns []pattern) {
	var now pattern
	var piece strings.Builder
	endPiece := func() {
		text := unquote(piece.String())
		if fold {
			text = strings.ToLower(text)
		}
		now = append(now, text)
		piece.Reset()
	}
	endPattern := func() {
		endPiece()
		patterns = append(patterns, now)
		now = nil
	}
	scan(value, func(r rune, plain bool) {
		switch {
		case plain && r == ',':
			endPattern()
		case plain && r == '*':
			endPiece()
		case plain && r == '\\': // only quotes make it special
			piece.WriteString(`\\`)
		default:
			piece.WriteRune(r)
		}
	})
	endPattern()
	return patterns
}

// match tells whether the whole text fits.
func (p pattern) match(text string) bool {
	last := len(p) - 1
	if last == 0 {
		return text == p[0]
	}
	rest, ok := strings.CutPrefix(text, p[0])
	if !ok {
		return false
	}
	for _, piece := range p[1:last] {
		i := strings.Index(rest, piece)
		if i < 0 {
			return false
		}
		rest = rest[i+len(piece):]
	}
	return strings.HasSuffix(rest, p[last])
}

// exactOf returns the texts, or nothing when one of them has a star.
func exactOf(patterns []pattern) (exact []string) {
	for _, p := range patterns {
		if len(p) > 1 {
			return nil
		}
		exact = append(exact, p[0])
	}
	return exact
}
