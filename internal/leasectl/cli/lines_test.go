package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", 200_000) // more than the reader's buffer
	tests := []struct {
		in   string
		want []string // number:text, with the size where it differs
	}{
		{"", nil},
		{"a", []string{"1:a"}},
		{"a\n", []string{"1:a"}},
		{"\n\r\n \t\nb\n", []string{"4:b"}},
		{"\ufeffa\r\nb\r\n\ufeffc\rd\r", []string{"1:a", "2:b", "3:\ufeffc\rd"}},
		{"\ufeff\r\n\ufeff", []string{"2:\ufeff"}},
		{" a \r\r\n", []string{"1: a \r"}},
		{"\ufeff" + long[:100] + "\r\n", []string{"1:" + long[:100]}},
		{"\ufeff" + long[:101] + "\r\n", []string{"1:" + long[:100] + " of 102"}}, // cut off, so what is its end is not known
		{long + "\nb", []string{"1:" + long[:100] + " of 200000", "2:b"}},
		{long[:100] + "\n", []string{"1:" + long[:100]}},
		{long[:101] + "\n", []string{"1:" + long[:100] + " of 101"}},
	}
	for _, tt := range tests {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := ReadLines(t.Context(), in, 100)
			var got []string
			for chunk := range r.Chunks {
				for _, l := range chunk {
					text := fmt.Sprintf("%d:%s", l.Number, l.Text)
					if l.Size != len(l.Text) {
						text += fmt.Sprintf(" of %d", l.Size)
					}
					got = append(got, text)
				}
			}
			if r.Err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%.20q %s: got %.60q, %v; want %.60q", tt.in, name, got, r.Err, tt.want)
			}
		}
	}
}

func TestReadLinesEnds(t *testing.T) {
	broken := errors.New("broken")
	r := ReadLines(t.Context(), io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 100)
	n := 0
	for chunk := range r.Chunks {
		n += len(chunk)
	}
	if n != 1 || !errors.Is(r.Err, broken) {
		t.Errorf("got %d lines, %v; want 1, not the half one, and the error", n, r.Err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = ReadLines(ctx, strings.NewReader(strings.Repeat("a\n", 10_000)), 100)
	for range r.Chunks { // at most one chunk, then the end
	}
	if !errors.Is(r.Err, context.Canceled) {
		t.Errorf("got %v, want that it ends with its context", r.Err)
	}
}
