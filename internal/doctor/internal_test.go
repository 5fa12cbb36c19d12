package doctor

import (
	"testing"
	"time"
)

// Clocks are compared by what etcd has ordered. Late writes are no skew.
func TestSkewIsToldFromLateWrites(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	type write struct {
		who    string
		second int
	}
	for _, tc := range []struct {
		name   string
		writes []write // in the order of revisions
		ahead  string
	}{
		{"equal clocks", []write{{"a", 0}, {"b", 1}, {"a", 2}, {"b", 3}, {"a", 4}, {"b", 5}, {"b", 6}}, ""},
		{"a is a minute ahead", []write{{"a", 60}, {"b", 1}, {"a", 62}, {"b", 3}, {"a", 64}, {"b", 5}}, "a"},
		{"four seconds are within the limit", []write{{"a", 4}, {"b", 1}, {"a", 6}, {"b", 3}, {"a", 8}, {"b", 5}}, ""},
		{"one write of b came late", []write{{"a", 30}, {"b", 1}, {"b", 31}, {"a", 32}, {"b", 33}, {"b", 34}}, ""},
		{"an outage held up all", []write{{"a", 0}, {"b", 30}, {"a", 29}, {"b", 1}, {"a", 2}, {"b", 15}, {"b", 3}, {"a", 1}, {"b", 31}}, ""},
		{"b wrote nothing behind a", []write{{"b", 1}, {"b", 2}, {"b", 3}, {"a", 60}}, ""},
		{"nobody", nil, ""},
	} {
		s := stamps{}
		for i, w := range tc.writes {
			s.add(w.who, int64(i+1), at(w.second))
		}
		got := ""
		for _, k := range s.apart() {
			got += k.ahead
		}
		if got != tc.ahead {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.ahead)
		}
	}
	s := stamps{}
	for i := range 5 * maxStamps {
		s.add("a", int64(i+1), at(i))
	}
	if n := len(s["a"]); n > 2*maxStamps {
		t.Errorf("%d stamps are kept", n)
	}
	if found := s.ahead(at(0)); len(found) != 1 || found[0].by != time.Duration(5*maxStamps-1)*time.Second {
		t.Errorf("in the future: %+v", found)
	}
	if found := s.ahead(at(5 * maxStamps)); len(found) != 0 {
		t.Errorf("in the past: %+v", found)
	}
}

func TestPlacesInAQueue(t *testing.T) {
	if !(rank{1, 9}).before(rank{0, 1}) || !(rank{0, 1}).before(rank{0, 2}) || (rank{0, 2}).before(rank{0, 2}) {
		t.Error("the order is not priority, then age")
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", 90 * time.Minute: "90m", 26 * time.Hour: "26h", 90 * 24 * time.Hour: "90d"} {
		if got := ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
