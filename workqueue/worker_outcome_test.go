package workqueue_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// What a handler does decides what becomes of its job.
func TestHandlerOutcomes(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	boom := errors.New("boom")
	for _, tc := range []struct {
		name   string
		params workqueue.Params
		handle workqueue.HandlerFunc
		state  workqueue.State
		trail  string
		err    string // in the trail, or the job's
	}{
		{"result", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return []byte("r"), nil }, workqueue.StateDone, "completed", ""},
		{"error", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, boom }, workqueue.StateRetry, "failed", "boom"},
		{"last-error", workqueue.Params{MaxAttempts: 1}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, boom }, workqueue.StateDead, "failed", "boom"},
		{"panic", workqueue.Params{MaxAttempts: 1}, func(context.Context, *workqueue.Claim) ([]byte, error) { panic("ouch") }, workqueue.StateDead, "failed", "worker_outcome_test.go"},
		{"goexit", workqueue.Params{MaxAttempts: 1}, func(context.Context, *workqueue.Claim) ([]byte, error) { runtime.Goexit(); return nil, nil }, workqueue.StateDead, "failed", "without returning"},
		{"permanent", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, workqueue.Permanent(boom) }, workqueue.StateDead, "failed", "boom"},
		{"snooze", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, workqueue.Snooze(time.Hour) }, workqueue.StateScheduled, "snoozed", ""},
		{"cancel", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, workqueue.Cancel(boom) }, workqueue.StateCancelled, "cancelled", "boom"},
		{"retry-after", workqueue.Params{}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
			if c.Job().Attempt == 1 {
				return nil, workqueue.RetryAfter(time.Millisecond, boom)
			}
			return nil, nil
		}, workqueue.StateDone, "failed completed", ""},
		{"too-large", workqueue.Params{}, func(context.Context, *workqueue.Claim) ([]byte, error) {
			return make([]byte, workqueue.MaxResult+1), nil
		}, workqueue.StateDead, "failed", "at most"},
		{"timeout", workqueue.Params{Timeout: time.Millisecond, MaxAttempts: 1}, func(ctx context.Context, _ *workqueue.Claim) ([]byte, error) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), workqueue.ErrAttemptTimeout) {
				return nil, errors.New("wrong cause")
			}
			return nil, ctx.Err()
		}, workqueue.StateDead, "failed", "longer than its timeout"},
		{"at-most-once", workqueue.Params{AtMostOnce: true}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, boom }, workqueue.StateDead, "failed", "boom"},
		{"closed-by-hand", workqueue.Params{}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
			return nil, c.Complete(ctx, []byte("x"))
		}, workqueue.StateDone, "completed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := openAt(t, cl, workqueue.Config{Root: root, Queue: tc.name, Backoff: workqueue.Backoff{Initial: time.Hour}})
			run(t, q, workqueue.WorkerConfig{}, tc.handle)
			tc.params.ID = "j"
			enqueue(t, q, tc.params)
			until(t, cl, root, "the job is "+string(tc.state), func() bool { return get(t, q, "j").State == tc.state })
			j := get(t, q, "j")
			if got := trail(j); got != tc.trail {
				t.Errorf("got trail %q, want %q", got, tc.trail)
			}
			if got := j.Attempts[len(j.Attempts)-1].Error; !strings.Contains(got, tc.err) {
				t.Errorf("got error %q, want %q in it", got, tc.err)
			}
		})
	}
}

// Jobs of kinds that the handler does not know are left alone.
func TestUnknownKindsAreLeftAlone(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	mux := workqueue.NewMux()
	mux.Register("known", workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil }))
	runHandler(t, q, workqueue.WorkerConfig{}, mux)
	enqueue(t, q, workqueue.Params{ID: "other", Kind: "unknown", Priority: 5}, workqueue.Params{ID: "mine", Kind: "known"})
	wait(t, q, "mine")
	if j := get(t, q, "other"); j.State != workqueue.StateReady || j.Attempt != 0 {
		t.Errorf("got %s after %d attempts", j.State, j.Attempt)
	}
}

// A running job that is cancelled, or whose claim is broken, ends its context with
// the cause, and its result is refused, with evidence.
func TestInterventionsReachTheHandler(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		act   func(q *workqueue.Queue, ctx context.Context) error
		cause error
	}{
		{"cancel", func(q *workqueue.Queue, ctx context.Context) error {
			_, err := q.Cancel(ctx, "j", workqueue.By{Actor: "me", Reason: "why"})
			return err
		}, workqueue.ErrCancelled},
		{"break", func(q *workqueue.Queue, ctx context.Context) error {
			_, err := admin.BreakClaim(ctx, q, "j", workqueue.By{Actor: "me", Reason: "why"})
			return err
		}, coord.ErrFenced},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			q, others := openAt(t, cl, workqueue.Config{Root: root}), openAt(t, cl, workqueue.Config{Root: root})
			started, settled := make(chan struct{}, 8), make(chan workqueue.Settlement, 8)
			causes := make(chan error, 8)
			r := run(t, q, workqueue.WorkerConfig{Limit: 1, Hooks: workqueue.Hooks{Settled: func(_ *workqueue.Job, s workqueue.Settlement) { settled <- s }}},
				func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
					started <- struct{}{}
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return []byte("late"), nil
				})
			enqueue(t, q, workqueue.Params{ID: "j"})
			receive(t, started, "the handler starts")
			if err := tc.act(others, bounded(t)); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, causes, "the context ends"); !errors.Is(got, tc.cause) {
				t.Errorf("got cause %v, want %v", got, tc.cause)
			}
			if s := receive(t, settled, "the claim is settled"); !s.Refused || !errors.Is(s.Err, coord.ErrFenced) {
				t.Errorf("got %+v, want a refusal", s)
			}
			until(t, cl, root, "evidence is kept", func() bool {
				found, err := admin.Refusals(bounded(t), others)
				return err == nil && found["j"].Verb == "complete" && found["j"].Size == 4
			})
			if err := r.stop(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pause stops all claims, also those on older knowledge, and a resume lets them go
// on.
func TestPauseStopsClaims(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q, others := openAt(t, cl, workqueue.Config{Root: root}), openAt(t, cl, workqueue.Config{Root: root})
	s := session(t, cl, root)
	enqueue(t, q, numbered(50, workqueue.Params{})...)
	c := claim(t, cl, root, q, s) // the mirror is up, and knows of no pause
	if err := c.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := others.Pause(bounded(t), workqueue.By{Actor: "me"}); err != nil {
		t.Fatal(err)
	}
	// At once, so that most likely the mirror still knows of no pause.
	for range 20 {
		if c, err := q.Claim(bounded(t), s); !errors.Is(err, workqueue.ErrEmpty) {
			t.Errorf("got claim %v, %v of a paused queue", c, err)
		}
	}
	run(t, q, workqueue.WorkerConfig{}, func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil })
	for j, err := range others.List(bounded(t), workqueue.Filter{}) {
		if err != nil || j.State != workqueue.StateReady {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	if err := others.Resume(bounded(t), workqueue.By{Actor: "me"}); err != nil {
		t.Fatal(err)
	}
	if err := others.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// Draining: soft first, then the contexts end with ErrDraining, and what returns an
// error then is released, not failed.
func TestDrain(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	started, release := make(chan string, 8), make(chan struct{})
	causes := make(chan error, 8)
	r := run(t, q, workqueue.WorkerConfig{DrainTimeout: 300 * time.Millisecond}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		started <- c.Job().ID
		if c.Job().ID == "quick" {
			<-release
			if err := ctx.Err(); err != nil {
				t.Errorf("the soft stop ended the context: %v", err)
			}
			return nil, nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	enqueue(t, q, workqueue.Params{ID: "quick"}, workqueue.Params{ID: "slow"})
	receive(t, started, "a handler starts")
	receive(t, started, "the other starts")
	r.cancel()
	close(release)
	wait(t, q, "quick")
	if got := receive(t, causes, "the context ends"); !errors.Is(got, workqueue.ErrDraining) {
		t.Errorf("got cause %v, want draining", got)
	}
	if err := r.stop(t); err != nil {
		t.Error(err)
	}
	if j := get(t, q, "slow"); j.State != workqueue.StateReady || trail(j) != "released" || j.Failures != 0 {
		t.Errorf("got %s after %q with %d failures", j.State, trail(j), j.Failures)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, numbered(10, workqueue.Params{})...)
	n := &tally{}
	r := run(t, q, workqueue.WorkerConfig{Limit: 3}, func(context.Context, *workqueue.Claim) ([]byte, error) {
		n.add("runs")
		return nil, nil
	})
	receive(t, r.done, "the worker ends by itself")
	if got := n.get("runs"); got != 3 || r.err != nil {
		t.Errorf("got %d runs, %v", got, r.err)
	}
}
