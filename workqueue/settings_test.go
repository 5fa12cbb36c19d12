package workqueue_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// keptFor is how long the done job is kept by its lease, in all.
func keptFor(t *testing.T, cl *clientv3.Client, root, id string) time.Duration {
	t.Helper()
	resp, err := cl.Get(bounded(t), keysOf(t, root).Done(id))
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%s is not done: %v, %v", id, resp, err)
	}
	ttl, err := cl.TimeToLive(bounded(t), clientv3.LeaseID(resp.Kvs[0].Lease))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ttl.GrantedTTL) * time.Second
}

// to changes settings to those.
func to(s workqueue.Config) func(*workqueue.Config) {
	return func(now *workqueue.Config) { *now = s }
}

// setSettings changes settings of the queue and waits until the handle follows.
func setSettings(t *testing.T, q *workqueue.Queue, s workqueue.Config) {
	t.Helper()
	if err := q.SetSettings(bounded(t), to(s), workqueue.By{Actor: "ann", Reason: "audit"}); err != nil {
		t.Fatal(err)
	}
}

// Workers of both modes, and handles that watch nothing, go by the settings for what ends
// from then on, with retention leases that they had before too.
func TestSettingsAreFollowed(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{workqueue.ModeClaim, workqueue.ModeDispatch} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cl, root := shared(t)
			q, bystander := openAt(t, cl, workqueue.Config{Root: root}), openAt(t, cl, workqueue.Config{Root: root})
			if err := q.SetMode(bounded(t), mode, ann); err != nil {
				t.Fatal(err)
			}
			run(t, openAt(t, cl, workqueue.Config{Root: root}), workqueue.WorkerConfig{StandForDispatcher: true}, func(_ context.Context, c *workqueue.Claim) ([]byte, error) {
				if strings.HasPrefix(c.Job().ID, "fails") {
					return nil, errors.New("no")
				}
				return nil, nil
			})
			try := 0
			// follows ends jobs by the worker until one is kept for as long as that.
			follows := func(want time.Duration) {
				t.Helper()
				until(t, cl, root, "the worker keeps jobs for "+want.String(), func() bool {
					try++
					enqueue(t, q, workqueue.Params{ID: "j" + itoa(try)})
					wait(t, q, "j"+itoa(try))
					return keptFor(t, cl, root, "j"+itoa(try)) == want+want/4
				})
				id := "c" + itoa(try)
				enqueue(t, q, workqueue.Params{ID: id, RunAt: time.Now().Add(time.Hour)})
				if _, err := bystander.Cancel(bounded(t), id, ann); err != nil {
					t.Fatal(err)
				}
				if got := keptFor(t, cl, root, id); got != want+want/4 {
					t.Errorf("who cancels keeps jobs for %v, want %v", got, want+want/4)
				}
			}
			follows(time.Hour)
			setSettings(t, q, workqueue.Config{Retention: 24 * time.Hour, Backoff: workqueue.Backoff{Initial: 48 * time.Hour, Max: 48 * time.Hour, Jitter: -1}})
			follows(24 * time.Hour)
			if got := keptFor(t, cl, root, "j1"); got != time.Hour+time.Hour/4 {
				t.Errorf("what was done before is kept for %v", got)
			}
			enqueue(t, q, workqueue.Params{ID: "fails"})
			until(t, cl, root, "it fails", func() bool { return get(t, q, "fails").State == workqueue.StateRetry })
			if pause := time.Until(get(t, q, "fails").RunAt); pause < 47*time.Hour {
				t.Errorf("it is tried again in %v", pause)
			}
			setSettings(t, q, workqueue.Config{})
			follows(time.Hour)
		})
	}
}

// A process keeps less than the settings say where its own config says so, and as many as
// they say where it says nothing.
func TestRetainedJobsAreTheQueues(t *testing.T) {
	t.Parallel()
	cl, root := shared(t)
	q := openAt(t, cl, workqueue.Config{Root: root, Retention: 2 * time.Hour})
	setSettings(t, q, workqueue.Config{Retention: 24 * time.Hour, RetainJobs: 20})
	keepDone(t, cl, root, q, 60, 1)
	until(t, cl, root, "at most 20 are kept", func() bool { return len(doneKeys(t, cl, root).Kvs) <= 20 })
	if got := keptFor(t, cl, root, "j59"); got != 2*time.Hour+30*time.Minute {
		t.Errorf("it is kept for %v", got)
	}
}

// What is set is told, with who set it and why; one that is out of bounds is refused by
// its name, and nothing changes.
func TestSetSettings(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	if err := d.q.Pause(bounded(t), workqueue.By{Actor: "bob", Reason: "lunch"}); err != nil {
		t.Fatal(err)
	}
	want := workqueue.Config{Retention: 36 * time.Hour, RetainJobs: 7, RetainBytes: 8, Backoff: workqueue.Backoff{Initial: time.Second, Factor: 1.5}}
	setSettings(t, d.q, want)
	s, err := admin.Settings(bounded(t), d.q)
	if err != nil || s.Settings != want || s.SettingsErr != nil || s.SetBy != "ann" || s.SetWhy != "audit" || s.SetAt.IsZero() || !s.Paused || s.PausedBy != "bob" {
		t.Errorf("got %+v, %v", s, err)
	}
	if all, err := admin.Count(bounded(t), d.q); err != nil || all.Settings != want {
		t.Errorf("got %+v, %v", all, err)
	}
	if err := d.q.SetSettings(bounded(t), to(want), workqueue.By{Revision: s.Revision - 1}); !errors.Is(err, workqueue.ErrConflict) {
		t.Errorf("at an older revision: %v", err)
	}
	for field, s := range map[string]workqueue.Config{
		"retention":       {Retention: time.Millisecond},
		"retain jobs":     {RetainJobs: -1},
		"retain bytes":    {RetainBytes: math.MaxInt},
		"backoff initial": {Backoff: workqueue.Backoff{Initial: -1}},
		"backoff max":     {Backoff: workqueue.Backoff{Initial: time.Hour}},
		"backoff factor":  {Backoff: workqueue.Backoff{Factor: math.Inf(1)}},
		"backoff jitter":  {Backoff: workqueue.Backoff{Jitter: math.Inf(-1)}},
	} {
		var input *coord.InputError
		if err := d.q.SetSettings(bounded(t), to(s), ann); !errors.As(err, &input) || input.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if s, err := admin.Settings(bounded(t), d.q); err != nil || s.Settings != want {
		t.Errorf("then it says %+v, %v", s, err)
	}
}

// Who changes one setting leaves what somebody else sets meanwhile: the first settings of
// a queue too, which no revision guards.
func TestSettingsOfTwoAtOnce(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	for _, other := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
		calls := 0
		if err := d.q.SetSettings(bounded(t), func(s *workqueue.Config) {
			if calls++; calls == 1 {
				setSettings(t, d.q, workqueue.Config{Retention: other})
			}
			s.RetainJobs = 7
		}, ann); err != nil {
			t.Fatal(err)
		}
		s, err := admin.Settings(bounded(t), d.q)
		if want := (workqueue.Config{Retention: other, RetainJobs: 7}); err != nil || s.Settings != want || calls != 2 {
			t.Errorf("got %+v, %v after %d calls, want %+v", s.Settings, err, calls, want)
		}
	}
}
