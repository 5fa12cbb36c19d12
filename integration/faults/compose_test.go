package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/integration/faults"
)

// fake writes down what is done to it.
type fake struct {
	name string
	log  *[]string
	err  error
}

func (f fake) Name() string { return f.name }

func (f fake) Inject(context.Context, *faults.Env) (faults.Heal, error) {
	if f.err != nil {
		return nil, f.err
	}
	*f.log = append(*f.log, "+"+f.name)
	return func(context.Context) error {
		*f.log = append(*f.log, "-"+f.name)
		return nil
	}, nil
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var log []string
	a, b, c := fake{"a", &log, nil}, fake{"b", &log, nil}, fake{"c", &log, nil}
	bad := fake{"bad", &log, errors.New("bad")}
	for _, test := range []struct {
		f          faults.Fault
		name, want string
		fails      bool
	}{
		{faults.Both(a, b), "both(a,b)", "+a +b healed -a -b", false},
		{faults.Both(a, bad), "both(a,bad)", "+a -a", true},
		{faults.Both(bad, a), "both(bad,a)", "", true},
		{faults.During(a, b, 0), "during(a,b)", "+a +b -b healed -a", false},
		{faults.During(a, bad, 0), "during(a,bad)", "+a -a", true},
		{faults.Sequence(0, a, b, c), "sequence(a,b,c)", "+a -a +b -b +c healed -c", false},
		{faults.Sequence(0, a, bad, c), "sequence(a,bad,c)", "+a -a", true},
		{faults.Sequence(0), "sequence()", "", true},
		{faults.During(a, faults.Sequence(0, b, c), 0), "during(a,sequence(b,c))", "+a +b -b +c -c healed -a", false},
	} {
		log = nil
		heal, err := test.f.Inject(t.Context(), &faults.Env{Rand: rand.New(rand.NewPCG(3, 3))})
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", test.name, err)
		}
		if err == nil {
			log = append(log, "healed")
			mend1(t, heal)
		}
		got := strings.Join(log, " ")
		if test.name == "both(a,b)" {
			got = strings.ReplaceAll(got, "-b -a", "-a -b") // the order is drawn
		}
		if got != test.want || test.f.Name() != test.name {
			t.Errorf("%s: got %q named %q, want %q", test.name, got, test.f.Name(), test.want)
		}
	}
}

func mend1(t testing.TB, heal faults.Heal) {
	t.Helper()
	if err := heal(t.Context()); err != nil {
		t.Error(err)
	}
}

// A deck gives every fault once before any comes again, and the same ones for the
// same seed.
func TestDeck(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64, n int) (names []string) {
		d := faults.NewDeck(rand.New(rand.NewPCG(seed, 0)), faults.Menu(3))
		for range n {
			names = append(names, d.Next().Name())
		}
		return names
	}
	size := len(faults.Menu(3))
	first := draw(7, 20*size)
	if !slices.Equal(first, draw(7, 20*size)) {
		t.Error("the same seed gave other faults")
	}
	if slices.Equal(first, draw(8, 20*size)) {
		t.Error("another seed gave the same faults")
	}
	round := slices.Sorted(slices.Values(first[:size]))
	if got := slices.Compact(round); len(got) != size {
		t.Errorf("the first round has %d different faults of %d: names must differ", len(got), size)
	}
	counts := map[string]int{}
	for _, name := range first[size:] {
		counts[name]++
	}
	if len(counts) < size*3/4 || counts["kill"] < counts["restart-all"] {
		t.Errorf("weights do not show: %v", counts)
	}

	d := faults.NewDeck(rand.New(rand.NewPCG(7, 0)), faults.Menu(1))
	f := d.Next()
	d.Again(f)
	for range len(faults.Menu(1)) - 1 {
		d.Next()
	}
	if got := d.Next(); got.Name() != f.Name() {
		t.Errorf("got %s, want %s again", got.Name(), f.Name())
	}
}
