// Package escape writes text that comes from etcd, where anybody may have put it, so that what reads it does not obey it:
// a terminal, a shell, a Markdown page, a program that splits lines at blanks. It is pure.
package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// commands tells whether a terminal obeys a rune, or does not show it: the categories Cc, Cf, Zl and Zp.
func commands(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Text is text for one line of a terminal. What breaks lines or moves to a tab stop is a blank; whatever else a terminal
// obeys or hides, and each byte that is not UTF-8, is shown as Go writes it, such as \x1b or \u202e.
func Text(text string) string {
	if plainText(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !commands(r):
			b.WriteRune(r)
		case unicode.IsSpace(r) && r != '\u0085':
			b.WriteByte(' ')
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// Block is text for several lines of a terminal: its lines, without the empty ones at its end, each as [Text] writes it.
func Block(text string) []string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	for i, line := range lines {
		lines[i] = Text(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
	return lines
}

func plainText(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return utf8.ValidString(text) && !strings.ContainsFunc(text, commands)
		}
	}
	return true
}

// JSON is encoded JSON of the same meaning that a terminal does not obey: what it would obey or hide is \uXXXX. Line breaks
// outside of strings stay.
func JSON(encoded []byte) []byte {
	if plainText(strings.ReplaceAll(string(encoded), "\n", "")) {
		return encoded
	}
	out := make([]byte, 0, len(encoded)+64)
	for _, r := range string(encoded) {
		switch {
		case r == '\n' || !commands(r):
			out = utf8.AppendRune(out, r)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out
}

// Markdown is text for the cell of a table in Markdown: it is one line, ends no cell and makes no markup.
func Markdown(text string) string {
	return markdown.Replace(Text(text))
}

var markdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;",
)

// shellPlain is what no shell takes for anything but itself.
const shellPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:/%+@"

// Shell is a word as it can be typed into a POSIX shell, or handed to one: it stands for the word, and for nothing else.
// One that holds what a terminal obeys is written as $'...', with octal escapes.
func Shell(word string) string {
	switch {
	case word != "" && strings.Trim(word, shellPlain) == "":
		return word
	case plainText(word):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		if c := word[i]; strings.IndexByte(shellPlain, c) >= 0 {
			b.WriteByte(c)
		} else { // quotes and backslashes too: a shell that does not know $'...' takes the rest for '...'
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	b.WriteString("'")
	return b.String()
}
