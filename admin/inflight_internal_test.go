package admin

import (
	"slices"
	"testing"
)

// An import hands over what travels in one Txn, however long its lines are, and leaves
// none out.
func TestImportsTravelInFlights(t *testing.T) {
	lines := func(n, size int) [][]byte { return slices.Repeat([][]byte{make([]byte, size)}, n) }
	for _, tc := range []struct {
		lines [][]byte
		want  int
	}{
		{lines(1, 10), 1}, {lines(40, 10), 40}, {lines(41, 10), 40}, {lines(1000, 10), 40},
		{lines(3, 256<<10), 2}, {lines(3, 900<<10), 1}, {append(lines(1, 10), lines(2, 900<<10)...), 1},
	} {
		if got := inOneFlight(tc.lines); got != tc.want {
			t.Errorf("%d lines of %d bytes: %d at a time, want %d", len(tc.lines), len(tc.lines[0]), got, tc.want)
		}
	}
}
