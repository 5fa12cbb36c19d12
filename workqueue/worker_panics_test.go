package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/workqueue"
)

// apiErr is an error whose methods panic on a nil pointer.
type apiErr struct{ code *int }

func (e *apiErr) Error() string { return fmt.Sprint(*e.code) }

// trapErr panics wherever errors.Is, errors.As and errors.Unwrap look.
type trapErr struct{ is, as, unwrap bool }

func (e trapErr) Error() string { return "trap" }

func (e trapErr) Is(error) bool {
	if e.is {
		panic("is")
	}
	return false
}

func (e trapErr) As(any) bool {
	if e.as {
		panic("as")
	}
	return false
}

func (e trapErr) Unwrap() error {
	if e.unwrap {
		panic("unwrap")
	}
	return nil
}

// greeting is a payload and a result whose encoders panic.
type greeting struct{ Name string }

func (greeting) MarshalJSON() ([]byte, error) { panic("marshal") }
func (*greeting) UnmarshalJSON([]byte) error  { panic("unmarshal") }

// Whatever the methods of a handler's error do, it is a failed attempt, and the worker
// goes on.
func TestPanicsOfUsersCodeAreFailedAttempts(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	var none *apiErr
	mux := workqueue.NewMux()
	returning := func(kind string, err error) {
		mux.Register(kind, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, err }))
	}
	returning("typed nil", none)
	returning("permanent", workqueue.Permanent(none))
	returning("wrapped", errors.Join(errors.New("beside"), none))
	returning("is", trapErr{is: true})
	returning("as", trapErr{as: true})
	returning("unwrap", trapErr{unwrap: true})
	mux.Register("by hand", workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		return nil, c.Fail(ctx, none)
	}))
	mux.Register("late", workqueue.HandlerFunc(func(ctx context.Context, _ *workqueue.Claim) ([]byte, error) {
		<-ctx.Done()
		return nil, trapErr{is: true}
	}))
	workqueue.HandleJSON(mux, "decode", func(context.Context, *workqueue.Claim, greeting) (int, error) { return 1, nil })
	workqueue.HandleJSON(mux, "encode", func(context.Context, *workqueue.Claim, int) (greeting, error) { return greeting{}, nil })
	mux.Register("fine", workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return []byte("ok"), nil }))

	q := openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Hour}})
	runHandler(t, q, workqueue.WorkerConfig{Concurrency: 2}, mux)
	for kind, want := range map[string]struct {
		state workqueue.State
		text  string
	}{
		"typed nil": {workqueue.StateRetry, "*workqueue_test.apiErr that cannot be printed: panic: runtime error: invalid memory address"},
		"permanent": {workqueue.StateDead, "cannot be printed"},
		"wrapped":   {workqueue.StateRetry, "cannot be printed"},
		"is":        {workqueue.StateRetry, "trap"},
		"as":        {workqueue.StateRetry, "trap"},
		"unwrap":    {workqueue.StateRetry, "trap"},
		"by hand":   {workqueue.StateRetry, "cannot be printed"},
		"late":      {workqueue.StateRetry, "longer than its timeout: trap"},
		"decode":    {workqueue.StateDead, "decode payload: panic: unmarshal"},
		"encode":    {workqueue.StateDead, "encode result: panic: marshal"},
	} {
		p := workqueue.Params{ID: kind, Kind: kind, Payload: []byte("1")}
		if kind == "late" {
			p.Timeout = time.Millisecond
		}
		enqueue(t, q, p)
		until(t, cl, root, kind+" is over", func() bool { j := get(t, q, kind); return j.State == want.state })
		if j := get(t, q, kind); j.Failures != 1 || !strings.Contains(j.Attempts[0].Error, want.text) {
			t.Errorf("%s: got %d failures, error %q; want %q in it", kind, j.Failures, j.Attempts[0].Error, want.text)
		}
	}
	enqueue(t, q, workqueue.Params{ID: "fine", Kind: "fine"})
	if j := wait(t, q, "fine"); string(j.Result) != "ok" {
		t.Errorf("the worker does not go on: got %+v", j)
	}
}

// A hook that panics is a line in the log, and costs neither the job nor its slot.
func TestPanicsOfHooksAreLogged(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	core, logs := observer.New(zapcore.WarnLevel)
	q := openAt(t, cl, workqueue.Config{Root: root, Logger: zap.New(core)})
	release := make(chan struct{})
	defer close(release)
	run(t, q, workqueue.WorkerConfig{Concurrency: 2, Grace: time.Millisecond, Hooks: workqueue.Hooks{
		Claimed:   func(*workqueue.Job, time.Duration) { panic("claimed") },
		Missed:    func() { panic("missed") },
		Abandoned: func(*workqueue.Job, error) { panic("abandoned") },
		Settled:   func(_ *workqueue.Job, s workqueue.Settlement) { _ = s.HandlerErr.Error() }, // nil after a good end
	}}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().ID == "stuck" {
			<-release
		}
		return nil, nil
	})
	enqueue(t, q, workqueue.Params{ID: "stuck", Timeout: time.Millisecond, MaxAttempts: 1}, workqueue.Params{ID: "a"}, workqueue.Params{ID: "b"})
	for _, id := range []string{"stuck", "a", "b"} {
		wait(t, q, id)
	}
	until(t, cl, root, "the hooks are logged", func() bool {
		return len(hooksIn(logs, "Claimed")) == 3 && len(hooksIn(logs, "Abandoned")) == 1 && len(hooksIn(logs, "Settled")) == 2
	})
}

func hooksIn(logs *observer.ObservedLogs, hook string) []observer.LoggedEntry {
	return logs.FilterMessage("hook panicked").FilterField(zap.String("hook", hook)).All()
}

// Attempts that do not end well are logged by default, one line each; good ones are not.
func TestBadEndsAreLogged(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	core, logs := observer.New(zapcore.WarnLevel)
	q := openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Hour}, Logger: zap.New(core)})
	free := make(chan struct{})
	settled := make(chan string, 10)
	// Time enough, on a busy machine too, for those that do return when their context ends.
	run(t, q, workqueue.WorkerConfig{Grace: 2 * time.Second, Hooks: workqueue.Hooks{
		Settled: func(j *workqueue.Job, _ workqueue.Settlement) { settled <- j.ID },
	}}, func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if c.Job().Attempt > 1 {
			return nil, nil
		}
		switch id := c.Job().ID; id {
		case "fails":
			return nil, errors.New("smtp 421")
		case "dies", "once":
			return nil, workqueue.Permanent(errors.New("no such user"))
		case "by-hand":
			return nil, c.Fail(ctx, errors.New("handed in"))
		case "broken", "abandoned":
			if id == "broken" {
				if _, err := admin.BreakClaim(ctx, q, id, workqueue.By{Actor: "ann"}); err != nil {
					return nil, err
				}
			}
			<-ctx.Done()
			<-free // a late result
		case "taken":
			if _, err := admin.BreakClaim(ctx, q, id, workqueue.By{Actor: "ann"}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case "cancelled":
			if _, err := q.Cancel(ctx, id, workqueue.By{Actor: "ann"}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, nil
	})
	for _, id := range []string{"fails", "dies", "by-hand", "once", "fine", "cancelled", "taken", "abandoned", "broken"} {
		p := workqueue.Params{ID: id}
		switch id {
		case "once":
			p.AtMostOnce = true
		case "abandoned":
			p.Timeout = time.Millisecond
		}
		enqueue(t, q, p)
	}
	until(t, cl, root, "two handlers are abandoned", func() bool {
		return logs.FilterMessage("handler ignores the end of its context").Len() == 2
	})
	close(free)
	for range 10 { // by-hand closes its claim itself; two jobs have a second attempt
		receive(t, settled, "an attempt is settled")
	}
	got := map[string][]string{}
	for _, e := range logs.All() {
		fields := e.ContextMap()
		if id, _ := fields["job"].(string); id != "" {
			text, _ := fields["error"].(string)
			got[id] = append(got[id], e.Message+"|"+text)
		}
	}
	const refused = "attempt refused: the claim is not current any more"
	for id, want := range map[string][]string{
		"fails":     {"attempt failed|smtp 421"},
		"by-hand":   {"attempt failed|handed in"},
		"dies":      {"attempt was the last: the job is dead|no such user"},
		"once":      {"attempt was the last: the job is dead|no such user"},
		"fine":      nil,
		"cancelled": nil,
		"taken":     {refused},
		"abandoned": {"handler ignores the end of its context", "attempt failed|the attempt took longer", refused},
		"broken":    {"handler ignores the end of its context", refused},
	} {
		if len(got[id]) != len(want) {
			t.Errorf("%s: got %q, want %q", id, got[id], want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[id][i], want[i]) {
				t.Errorf("%s: got %q, want %q", id, got[id][i], want[i])
			}
		}
	}
}

// What a call asks of its caller's code is an error of the call when it panics.
func TestPanicsOfCallbacksAreErrors(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	err := firstError(d.q, workqueue.Filter{Match: func(*workqueue.Job) bool { panic("match") }})
	if err == nil || !strings.Contains(err.Error(), "panic: match") {
		t.Errorf("list: got %v", err)
	}
	_, err = admin.Edit(bounded(t), d.q, "x", func(*workqueue.Params) error { panic("change") }, workqueue.By{Actor: "ann"})
	if err == nil || !strings.Contains(err.Error(), "panic: change") {
		t.Errorf("edit: got %v", err)
	}
}
