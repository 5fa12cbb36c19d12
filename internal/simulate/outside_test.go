package simulate

import "testing"

func TestOutsideStore(t *testing.T) {
	a, b := jobID(0), jobID(1)
	tests := []struct {
		name    string
		effects []effect
		want    effects
	}{
		{"once each", []effect{{a, "ka", 5}, {b, "kb", 6}}, effects{}},
		{"a repeat under a higher token", []effect{{a, "ka", 5}, {a, "ka", 9}, {b, "kb", 6}}, effects{again: 1}},
		{"a late one under a lower token", []effect{{a, "ka", 9}, {a, "ka", 5}, {b, "kb", 6}}, effects{lower: 1}},
		{"tokens of two jobs are not compared", []effect{{a, "ka", 9}, {b, "kb", 6}}, effects{}},
		{"without token and key it takes everything", []effect{{job: a}, {job: a}}, effects{doubled: 1, missing: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newOutside()
			for _, e := range tt.effects {
				store.apply(e)
			}
			if got := store.tally(2); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
