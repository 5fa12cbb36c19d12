package election_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
)

// A panic of the leader's function is what Run returns, and the next one leads at once.
func TestPanicOfTheLeadersFunctionEndsItsRunAlone(t *testing.T) {
	s := sharedStage(t)
	explode := make(chan struct{})
	a := s.enterWith(s.client, func(context.Context, *election.Term) error {
		<-explode
		panic("boom")
	})
	first := a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	close(explode)
	err := receive(t, "the end of Run", a.done)
	if err == nil || !strings.Contains(err.Error(), "panic: boom") || !strings.Contains(err.Error(), "panics_test.go") {
		t.Fatalf("got %v", err)
	}
	if second := b.leads(); second.Token() <= first.Token() {
		t.Errorf("got token %s behind %s", second.Token(), first.Token())
	}
}

// Hooks that panic, and a function that panics when its term is over already, are lines
// in the log: the elector stands again.
func TestPanicsAroundATermAreLogged(t *testing.T) {
	s := sharedStage(t)
	core, logs := observer.New(zapcore.ErrorLevel)
	calm := make(chan struct{})
	late := make(chan struct{}, 1)
	a := s.enterWith(s.client, func(ctx context.Context, _ *election.Term) error {
		<-ctx.Done()
		select {
		case <-calm:
			return nil
		default:
		}
		<-late
		panic("boom")
	}, expires, func(c *election.Config) {
		c.Logger, c.Grace = zap.New(core), time.Millisecond
		c.Hooks = election.Hooks{
			Elected: func(*election.Term) { panic("elected") },
			Ended:   func(*election.Term, error) { panic("ended") },
			Stuck:   func(*election.Term) { late <- struct{}{}; panic("stuck") },
		}
	})
	a.leads()
	wantErr(t, "resign", a.Resign(within(t)), coord.ErrSessionLost) // it was stuck
	a.leads()
	close(calm)
	must(t, a.leaves())
	for _, hook := range []string{"Elected", "Ended", "Stuck"} {
		if logs.FilterMessage("hook panicked").FilterField(zap.String("hook", hook)).Len() == 0 {
			t.Errorf("%s is not logged", hook)
		}
	}
	if logs.FilterMessage("panic at the end of a term").Len() != 1 {
		t.Errorf("got %v", logs.All())
	}
}

func TestDurationsHaveBounds(t *testing.T) {
	s := sharedStage(t)
	for field, cfg := range map[string]election.Config{
		"ttl":   {TTL: 25 * time.Hour},
		"ttl ":  {TTL: math.MaxInt64},
		"ttl  ": {TTL: time.Second - 1},
		"grace": {Grace: math.MaxInt64}, "grace ": {Grace: -1},
	} {
		cfg.Name, cfg.Root = "e", s.root
		_, err := election.New(s.client, cfg)
		var input *coord.InputError
		if !errors.As(err, &input) || input.Field != strings.TrimSpace(field) {
			t.Errorf("%+v: got %v, want it to name %s", cfg, err, field)
		}
	}
	if _, err := election.New(s.client, election.Config{Name: "e", TTL: 24 * time.Hour, Grace: 100 * 365 * 24 * time.Hour}); err != nil {
		t.Errorf("the largest: got %v", err)
	}
}
