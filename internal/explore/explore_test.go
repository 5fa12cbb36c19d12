package explore_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/leasekit/leasekit/internal/explore"
)

// buckets is a world of two buckets that hold 3 and 5: fill, empty, pour.
type buckets struct{ small, large byte }

var errFour = errors.New("four")

func search(limit int, find byte) explore.Report {
	return explore.World[buckets]{
		Choices: func(buckets) []string {
			return []string{"fill small", "fill large", "empty small", "empty large", "pour", "nonsense"}
		},
		Step: func(b buckets, line string) (buckets, bool, error) {
			switch line {
			case "fill small":
				b.small = 3
			case "fill large":
				b.large = 5
			case "empty small":
				b.small = 0
			case "empty large":
				b.large = 0
			case "pour":
				n := min(b.large, 3-b.small)
				b.small, b.large = b.small+n, b.large-n
			default:
				return b, false, nil
			}
			if b.large == find {
				return b, true, errFour
			}
			return b, true, nil
		},
		Encode: func(buf []byte, b buckets) []byte { return append(buf, b.small, b.large) },
		Limit:  limit,
	}.Run(buckets{})
}

func TestRunFindsTheShortestWay(t *testing.T) {
	r := search(0, 2)
	if want := []string{"fill large", "pour"}; !slices.Equal(r.Script, want) || !errors.Is(r.Err, errFour) || r.Complete {
		t.Errorf("got %q, %v, complete %v; want %q", r.Script, r.Err, r.Complete, want)
	}
}

func TestRunVisitsEachStateOnce(t *testing.T) {
	r := search(0, 99)
	if r.States != 16 || r.Steps != 16*5 || !r.Complete || r.Err != nil {
		t.Errorf("got %v, %d steps, %v", r, r.Steps, r.Err)
	}
	if r := search(5, 99); r.States != 5 || r.Complete {
		t.Errorf("limited: got %v", r)
	}
}

func TestRanksKeepTheOrderAlone(t *testing.T) {
	var ranks explore.Ranks
	rank := func(revs ...int64) (got []int64) {
		ranks.Reset()
		for _, r := range revs {
			ranks.Rank(r)
		}
		ranks.Sort()
		for _, r := range revs {
			got = append(got, ranks.Rank(r))
		}
		return got
	}
	if a, b := rank(7, 0, 3, 7, 900), rank(12, 0, 11, 12, 13); !slices.Equal(a, b) || !slices.Equal(a, []int64{1, -1, 0, 1, 2}) {
		t.Errorf("got %v and %v", a, b)
	}
}
