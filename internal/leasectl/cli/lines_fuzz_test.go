package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Lines come out as they went in, numbered, and no longer than the limit.
func FuzzReadLines(f *testing.F) {
	for _, in := range []string{"", "\n", "a", "a\n", "a\n\nb", "\x00\xff\n", strings.Repeat("x", 100_000) + "\ny", strings.Repeat("l\n", 5000), "\r\n\r\n"} {
		f.Add([]byte(in), uint16(10))
	}
	f.Fuzz(func(t *testing.T, in []byte, limit uint16) {
		r := ReadLines(t.Context(), bytes.NewReader(in), int(limit))
		var got []InputLine
		for chunk := range r.Chunks {
			got = append(got, chunk...)
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		var want []InputLine
		for i, line := range bytes.Split(bytes.TrimPrefix(in, []byte("\ufeff")), []byte("\n")) {
			line = bytes.TrimSuffix(line, []byte("\r"))
			if text := line[:min(len(line), int(limit))]; len(bytes.TrimSpace(text)) > 0 {
				want = append(want, InputLine{i + 1, text, len(line)})
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d lines of %d", len(got), len(want))
		}
		for i, l := range got {
			long := want[i].Size > int(limit) // by how much does not matter
			if l.Number != want[i].Number || l.Size != want[i].Size && !(long && l.Size > int(limit)) || !bytes.Equal(l.Text, want[i].Text) {
				t.Errorf("line %d is %d: %q of %d bytes, want %q", want[i].Number, l.Number, l.Text, l.Size, want[i].Text)
			}
		}
	})
}
