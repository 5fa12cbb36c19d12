package cli

import (
	"errors"
	"sync/atomic"
	"testing"
)

func TestInOrder(t *testing.T) {
	var atOnce, most atomic.Int64
	gate := make(chan struct{})
	do := func(i int) int {
		if n := atOnce.Add(1); n > most.Load() {
			most.Store(n)
		}
		if i == 0 {
			<-gate // the first is slow: the others must wait to be told
		}
		if i == 5 {
			close(gate)
		}
		atOnce.Add(-1)
		return i * i
	}
	next := 0
	begun, err := InOrder(nil, 100, 8, do, func(i, r int) error {
		if i != next || r != i*i {
			t.Errorf("%d: told %d, next is %d", i, r, next)
		}
		next++
		return nil
	})
	if begun != 100 || err != nil || next != 100 {
		t.Errorf("begun %d, told %d, %v", begun, next, err)
	}
	if most.Load() > 10 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestInOrderStops(t *testing.T) {
	stop := make(chan struct{})
	told := 0
	begun, err := InOrder(stop, 1000, 4, func(i int) int { return i }, func(i, _ int) error {
		if told++; i == 10 {
			close(stop)
		}
		return nil
	})
	if err != nil || begun != told || begun < 11 || begun > 20 {
		t.Errorf("begun %d, told %d, %v", begun, told, err)
	}
	oops := errors.New("oops")
	told = 0
	begun, err = InOrder(nil, 1000, 4, func(i int) int { return i }, func(int, int) error { told++; return oops })
	if !errors.Is(err, oops) || told != 1 || begun > 10 {
		t.Errorf("begun %d, told %d, %v", begun, told, err)
	}
	if begun, err := InOrder(nil, 0, 4, func(i int) int { return i }, func(int, int) error { return oops }); begun != 0 || err != nil {
		t.Errorf("of nothing: %d, %v", begun, err)
	}
}
