package claims

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errUnknown = errors.New("unknown")
	errFenced  = errors.New("fenced")
	errDenied  = errors.New("denied")
	errLost    = errors.New("answer lost")
)

// script is a way whose tries have these outcomes, one after the other.
type script struct {
	tries    []Outcome
	followed Verdict
	n        int
	overs    []error
}

func (s *script) way() Way {
	return Way{
		Try: func(ctx context.Context) Outcome {
			if s.n++; s.n > len(s.tries) {
				<-ctx.Done()
				return Outcome{Verdict: Again, Err: ctx.Err()}
			}
			return s.tries[s.n-1]
		},
		Followed: func(context.Context) (Verdict, error) {
			if s.followed == Fenced {
				return Fenced, errFenced
			}
			return s.followed, nil
		},
		Unknown: func(causes ...error) error { return errors.Join(append([]error{errUnknown}, causes...)...) },
		Over:    func(err error) { s.overs = append(s.overs, err) },
	}
}

// What a caller hears, and whether the claim is over then.
func TestCloserJudges(t *testing.T) {
	applied, again := Outcome{Verdict: Applied}, Outcome{Verdict: Again}
	unsure, fenced := Outcome{Verdict: Unsure, Err: errLost}, Outcome{Verdict: Fenced, Err: errFenced}
	denied, loose := Outcome{Verdict: Refused, Err: errDenied}, unsure
	loose.Loose = func() bool { return true }
	for name, c := range map[string]struct {
		tries    []Outcome
		followed Verdict
		want     error
		over     bool
	}{
		"applied":                                        {[]Outcome{applied}, 0, nil, true},
		"applied after lost races":                       {[]Outcome{again, again, again, again, again, again, again, applied}, 0, nil, true},
		"fenced":                                         {[]Outcome{fenced}, Applied, errFenced, true},
		"denied: open as before":                         {[]Outcome{denied}, Applied, errDenied, false},
		"unsure, then applied":                           {[]Outcome{unsure, applied}, 0, nil, true},
		"unsure, then fenced by its own success":         {[]Outcome{unsure, fenced}, Applied, nil, true},
		"unsure, then fenced by somebody else":           {[]Outcome{unsure, fenced}, Fenced, errFenced, true},
		"unsure, then fenced, and nobody can tell":       {[]Outcome{unsure, fenced}, Unsure, errUnknown, true},
		"unsure, then denied, but applied":               {[]Outcome{unsure, denied}, Applied, nil, true},
		"unsure, then denied, and not applied":           {[]Outcome{unsure, denied}, Refused, errDenied, false},
		"unsure for good, then denied":                   {[]Outcome{loose, denied}, Refused, errUnknown, false},
		"unsure for good, then denied, but applied":      {[]Outcome{loose, denied}, Applied, nil, true},
		"unsure, then denied, and somebody else's":       {[]Outcome{unsure, denied}, Fenced, errFenced, true},
		"unsure, then denied, and nobody can tell":       {[]Outcome{unsure, denied}, Unsure, errUnknown, false},
		"unsure, then nothing came of it, then applied":  {[]Outcome{unsure, again, applied}, 0, nil, true},
		"unsure, fenced, but it is current: it is wrong": {[]Outcome{unsure, fenced}, Refused, errUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				_ = r.Hold("n", func(context.Context) error { return nil })
				s := &script{tries: c.tries, followed: c.followed}
				closer := NewCloser(r.Book, "n", r.behind)
				if err := closer.Close(t.Context(), s.way()); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if closer.Over() != c.over || len(s.overs) == 1 != c.over {
					t.Errorf("over: got %v, told %v, want %v", closer.Over(), s.overs, c.over)
				}
				want := ErrSettled
				if c.want != nil {
					want = c.want
				}
				if c.over {
					if err := closer.Close(t.Context(), s.way()); !errors.Is(err, want) {
						t.Errorf("again: got %v, want %v", err, want)
					}
				}
			})
		})
	}
}

// A caller that leaves hears that the outcome is unknown; the write goes on, and a later
// call has its turn when it was not applied.
func TestALaterCallHasItsTurn(t *testing.T) {
	for name, c := range map[string]struct {
		first        Outcome
		second       error
		secondIsSent bool
	}{
		"the first was applied":     {Outcome{Verdict: Applied}, ErrSettled, false},
		"the first was not applied": {Outcome{Verdict: Refused, Err: errDenied}, nil, true},
		"the claim was taken":       {Outcome{Verdict: Fenced, Err: errFenced}, errFenced, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				_ = r.Hold("n", func(context.Context) error { return nil })
				answer := make(chan struct{})
				first := (&script{tries: []Outcome{c.first}}).way()
				try := first.Try
				first.Try = func(ctx context.Context) Outcome { <-answer; return try(ctx) }
				closer := NewCloser(r.Book, "n", r.behind)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := closer.Close(ctx, first); !errors.Is(err, errUnknown) {
					t.Errorf("the caller that leaves: got %v", err)
				}
				second := &script{tries: []Outcome{{Verdict: Applied}}}
				result := make(chan error, 1)
				go func() { result <- closer.Close(t.Context(), second.way()) }()
				synctest.Wait()
				if second.n != 0 {
					t.Error("two closing writes at once")
				}
				close(answer)
				if err := <-result; !errors.Is(err, c.second) || (second.n == 1) != c.secondIsSent {
					t.Errorf("the later call: got %v, sent %d", err, second.n)
				}
			})
		})
	}
}

// The reconciler goes on where a caller has left for good, by the claim's End.
func TestAnUnknownOutcomeIsSettledByTheReconciler(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		closer := NewCloser(r.Book, "n", r.behind)
		release := &script{tries: []Outcome{{Verdict: Refused, Err: errDenied}, {Verdict: Applied}}}
		_ = r.Hold("n", func(ctx context.Context) error { return closer.Close(ctx, release.way()) })
		lost := &script{tries: []Outcome{{Verdict: Unsure, Err: errLost}, {Verdict: Refused, Err: errDenied}}, followed: Unsure}
		if err := closer.Close(t.Context(), lost.way()); !errors.Is(err, errUnknown) {
			t.Errorf("got %v", err)
		}
		<-r.Drained()
		if release.n != 2 {
			t.Errorf("released by %d tries", release.n)
		}
	})
}

// What is unsure is not judged before it can change no more.
func TestDoubtWaitsUntilItIsFixed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		fixed := make(chan struct{})
		s := &script{tries: []Outcome{{Verdict: Unsure, Err: errLost, Fixed: fixed}, {Verdict: Refused, Err: errDenied}}, followed: Refused}
		result := make(chan error, 1)
		go func() { result <- NewCloser(nil, "", r.behind).Close(t.Context(), s.way()) }()
		<-time.After(time.Minute) // of the bubble
		synctest.Wait()
		if s.n != 1 {
			t.Errorf("%d tries while the first may arrive yet", s.n)
		}
		close(fixed)
		if err := <-result; !errors.Is(err, errDenied) {
			t.Errorf("got %v", err)
		}
	})
}

// A closing write that its session cuts short leaves the claim to the session's lease.
func TestCutShort(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_ = r.Hold("n", func(context.Context) error { return nil })
		closer := NewCloser(r.Book, "n", r.behind)
		result := make(chan error, 1)
		go func() {
			result <- closer.Close(t.Context(), (&script{tries: []Outcome{{Verdict: Unsure, Err: errLost}}}).way())
		}()
		synctest.Wait()
		r.end()
		if err := <-result; !errors.Is(err, errUnknown) {
			t.Errorf("got %v", err)
		}
		<-r.Drained()
	})
}

// A way that reopens leaves the claim to late calls, which etcd refuses.
func TestReopen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_ = r.Hold("n", func(context.Context) error { return nil })
		closer := NewCloser(r.Book, "n", r.behind)
		way := (&script{tries: []Outcome{{Verdict: Applied}}}).way()
		way.Reopen = true
		if err := closer.Close(t.Context(), way); err != nil || closer.Over() || r.Len() != 0 {
			t.Errorf("got %v, over %v, %d claims", err, closer.Over(), r.Len())
		}
		late := &script{tries: []Outcome{{Verdict: Fenced, Err: errFenced}}}
		if err := closer.Close(t.Context(), late.way()); !errors.Is(err, errFenced) || late.n != 1 {
			t.Errorf("late: got %v, sent %d", err, late.n)
		}
	})
}

// What was refused behind a caller that has left is open again, for the next call; where
// the caller gave the claim up there is none, and the claim is a stray.
func TestRefusedBehindItsCaller(t *testing.T) {
	for _, givesUp := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			end, calls := failing(0)
			_ = r.Hold("n", end)
			s, answer := &script{tries: []Outcome{{Verdict: Unsure, Err: errLost}, {Verdict: Refused, Err: errDenied}}, followed: Refused}, make(chan struct{})
			s.tries[0].Fixed = answer
			way := s.way()
			way.GivesUp = givesUp
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := NewCloser(r.Book, "n", r.behind).Close(ctx, way); !errors.Is(err, errUnknown) {
				t.Errorf("the caller that leaves: %v", err)
			}
			close(answer)
			<-time.After(time.Minute) // of the bubble
			synctest.Wait()
			if want := map[bool]int64{true: 1}[givesUp]; calls.Load() != want {
				t.Errorf("gives up %v: ended %d times, want %d", givesUp, calls.Load(), want)
			}
			r.Untrack("n")
		})
	}
}

// The same for one that waited behind another call, and left before its turn.
func TestGivenUpBehindAnotherCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		end, calls := failing(0)
		_ = r.Hold("n", end)
		closer, answer := NewCloser(r.Book, "n", r.behind), make(chan struct{})
		first := &script{tries: []Outcome{{Verdict: Unsure, Err: errLost, Fixed: answer}, {Verdict: Refused, Err: errDenied}}, followed: Refused}
		result := make(chan error, 1)
		go func() { result <- closer.Close(t.Context(), first.way()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		way := (&script{}).way()
		way.GivesUp = true
		if err := closer.Close(ctx, way); !errors.Is(err, errUnknown) {
			t.Errorf("the caller that leaves: %v", err)
		}
		close(answer)
		if err := <-result; !errors.Is(err, errDenied) {
			t.Errorf("the first call: %v", err)
		}
		<-r.Drained()
		if calls.Load() != 1 {
			t.Errorf("ended %d times", calls.Load())
		}
	})
}
