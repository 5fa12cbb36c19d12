package coord

import (
	"slices"
	"testing"
	"time"
)

func TestStrays(t *testing.T) {
	t0 := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	const full = 2 * requestTimeout
	// Each step is one call; want is what it returns.
	type step struct {
		after         time.Duration
		adopt, forget string
		owned, want   []string
	}
	for name, steps := range map[string][]step{
		"known claims are no strays": {
			{adopt: "a", owned: []string{"a"}},
			{after: 10 * full, owned: []string{"a"}},
		},
		"unknown ones are, after two request timeouts": {
			{owned: []string{"a"}},
			{after: full - 1, owned: []string{"a"}},
			{after: full, owned: []string{"a"}, want: []string{"a"}},
			{after: full + 1, owned: []string{"a"}, want: []string{"a"}},
		},
		"counted from when each was first seen unknown": {
			{owned: []string{"a"}},
			{after: full, owned: []string{"a", "b"}, want: []string{"a"}},
			{after: 2 * full, owned: []string{"a", "b"}, want: []string{"a", "b"}},
		},
		"one that vanished starts anew": {
			{owned: []string{"a"}},
			{after: 1},
			{after: full, owned: []string{"a"}},
			{after: 2 * full, owned: []string{"a"}, want: []string{"a"}},
		},
		"forgotten while the list was on its way": {
			{adopt: "a", owned: []string{"a"}},
			{after: full, forget: "a", owned: []string{"a"}},
			{after: full + 1},
		},
		"adopted late after all": {
			{owned: []string{"a"}},
			{after: full, adopt: "a", owned: []string{"a"}},
		},
	} {
		r := newRegistry()
		for i, st := range steps {
			if st.adopt != "" {
				r.claims[st.adopt] = nil
			}
			delete(r.claims, st.forget)
			if got := r.strayAt("q", st.owned, t0.Add(st.after)); !slices.Equal(got, st.want) {
				t.Errorf("%s: step %d: got strays %v, want %v", name, i, got, st.want)
			}
		}
	}
}
