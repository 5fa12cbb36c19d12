package escape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name is a name as it stands in a reference: one word for a shell, for xargs and in a table. Whatever one of them, or a
// reader's eye, takes for something else is percent-encoded: blanks, quotes, controls, what is not seen, the percent sign;
// and the ASCII characters in also. [Unname] reads it.
func Name(name, also string) string {
	if strings.Trim(name, shellPlain) == "" && !strings.ContainsAny(name, "%"+also) {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		size := max(utf8.RuneLen(r), 1)
		if r == utf8.RuneError && !strings.HasPrefix(name[i:], string(utf8.RuneError)) {
			size = 1
		} else if inName(r) && !strings.ContainsRune(also, r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(name[i : i+size]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// inName tells whether a rune stands for itself in a reference.
func inName(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '=' || r != '%' && strings.ContainsRune(shellPlain, r)
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Unname reads what [Name] wrote, and what people type: a percent sign that begins no escape stands for itself.
func Unname(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// Job is a reference to a job, QUEUE/ID. The first slash ends the queue, so one in its name is encoded. A queue that is
// called job is job/job, since job/QUEUE/ID is a reference as well.
func Job(queue, id string) string {
	ref := Name(queue, "/") + "/" + Name(id, "")
	if queue == "job" && strings.Contains(id, "/") {
		return "job/" + ref
	}
	return ref
}
