package workqueue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// A config that cannot be read lets nobody claim. The one in its place pauses the queue, keeps what could be read, and is
// one like any other.
func TestMendConfig(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x"})
	by := func(rev int64) workqueue.By { return workqueue.By{Actor: "ann", Reason: "mended", Revision: rev} }
	for was, kept := range map[string]string{
		"not json":                       "",
		`[1]`:                            "",
		`{"mode":"dispatch","paused":7}`: `"mode":"dispatch"`,
		`{"mode":{},"limits":{"gpu":9007199254740993}}`: `"limits":{"gpu":9007199254740993}`,
	} {
		rev := d.put(d.keys.Config(), was)
		if err := admin.MendConfig(bounded(t), d.q, by(rev-1)); !errors.Is(err, workqueue.ErrConflict) || d.value(d.keys.Config()) != was {
			t.Errorf("%s, at an older revision: %v", was, err)
		}
		if err := admin.MendConfig(bounded(t), d.q, by(rev)); err != nil {
			t.Fatalf("%s: %v", was, err)
		}
		now := d.value(d.keys.Config())
		if !strings.Contains(now, kept) || strings.Count(now, `"paused"`) != 1 || keyspace.NonceOf([]byte(now)) == "" {
			t.Errorf("%s became %s", was, now)
		}
		s, err := admin.Settings(bounded(t), d.q)
		if err != nil || !s.Paused || s.PausedBy != "ann" || s.PausedWhy != "mended" || s.PausedAt.IsZero() {
			t.Errorf("%s: %+v, %v", was, s, err)
		}
		if err := admin.MendConfig(bounded(t), d.q, by(s.Revision)); !errors.Is(err, workqueue.ErrNotApplicable) {
			t.Errorf("one that can be read: %v", err)
		}
		if err := d.q.SetMode(bounded(t), "claim", ann); err != nil {
			t.Error(err)
		}
		if err := d.q.Resume(bounded(t), ann); err != nil {
			t.Error(err)
		}
	}
	if err := admin.MendConfig(bounded(t), d.q, by(0)); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("without a revision: %v", err)
	}
	d.claim()
}
