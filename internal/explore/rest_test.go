package explore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/explore"
)

var errStuck = errors.New("stuck")

// lamp is a world of a lamp that may break, once, and of what happens to it then.
func lamp(limit int, edges map[string]string, fair ...string) explore.Report {
	return explore.World[string]{
		Choices: func(at string) (lines []string) {
			for edge := range edges {
				if strings.HasPrefix(edge, at+" ") {
					lines = append(lines, edge)
				}
			}
			slices.Sort(lines)
			return lines
		},
		Step:   func(_, line string) (string, bool, error) { return edges[line], true, nil },
		Encode: func(b []byte, at string) []byte { return append(b, at...) },
		Fair:   func(line string) bool { return slices.Contains(fair, line) },
		Rest: func(at string) error {
			if at == "broken" {
				return errStuck
			}
			return nil
		},
		Limit: limit,
	}.Run("whole")
}

func TestRestIsJudged(t *testing.T) {
	edges := map[string]string{"whole breaks": "broken", "broken mends": "whole"}
	if r := lamp(0, edges, "broken mends"); r.Err != nil || !r.Complete {
		t.Errorf("mended: %v, %v", r, r.Err)
	}
	r := lamp(0, edges)
	if !errors.Is(r.Err, errStuck) || !slices.Equal(r.Script, []string{"whole breaks"}) || r.Complete {
		t.Errorf("never mended: %v, %q, %v", r, r.Script, r.Err)
	}
}

func TestFairLinesEnd(t *testing.T) {
	edges := map[string]string{"whole flickers": "dim", "dim glows": "bright", "bright fades": "dim"}
	if r := lamp(0, edges, "dim glows"); r.Err != nil {
		t.Errorf("got %v", r.Err)
	}
	r := lamp(0, edges, "dim glows", "bright fades")
	if !errors.Is(r.Err, explore.ErrEndless) || !slices.Equal(r.Script, []string{"whole flickers"}) {
		t.Errorf("got %q, %v", r.Script, r.Err)
	}
}

// A state whose next ones are too many is followed to its rest all the same.
func TestRestIsJudgedBeyondTheLimit(t *testing.T) {
	edges := map[string]string{"whole cracks": "cracked", "cracked splits": "split", "split falls": "broken"}
	r := lamp(2, edges, "cracked splits", "split falls")
	if !errors.Is(r.Err, errStuck) || len(r.Script) != 3 {
		t.Errorf("got %q, %v", r.Script, r.Err)
	}
	if r := lamp(1, map[string]string{"whole a": "b", "b a": "b2", "b2 a": "b"}, "whole a", "b a", "b2 a"); !errors.Is(r.Err, explore.ErrEndless) {
		t.Errorf("got %v", r.Err)
	}
}
