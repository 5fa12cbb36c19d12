package history_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/history"
)

// Terms and the writes of leaders are recorded, and pass.
func TestTermsPass(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	w := witness(t, cl, history.WitnessConfig{Root: root, Also: []string{"/caller" + root}, From: put(t, cl, root+"x")})
	rec := history.NewRecorder("p")
	stop := errors.New("enough")
	for i := range 2 {
		e, err := election.New(cl, election.Config{Name: "e", Root: root, TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(bounded(t))
		err = e.Run(ctx, rec.Term("e", func(ctx context.Context, term *election.Term) error {
			defer cancel(stop)
			for range 3 {
				if err := rec.Commit(ctx, "e", term, "/caller"+root+"k", string(rune('a'+i))); err != nil {
					t.Error(err)
				}
			}
			return nil
		}))
		cancel(nil)
		if err != nil {
			t.Error(err)
		}
	}
	if err := w.WaitSeen(bounded(t), put(t, cl, root+"x")); err != nil {
		t.Fatal(err)
	}
	run := history.Run{Root: root, Log: rec.Log(), Events: w.Events()}
	report := history.Check(run, bounds)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Stats.Terms != 2 || report.Stats.Answers["commit applied"] != 6 {
		t.Errorf("got %v", report.Stats)
	}
	run.Log.Ops[0].Token = run.Log.Terms[1].Token
	if history.Check(run, bounds).Err() == nil {
		t.Error("a write under the next leader's token passes")
	}
}
