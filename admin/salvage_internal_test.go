package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/workqueue"
)

// What is salvaged, or buried, can be seen, and only what was seen is.
func TestSalvageAndBuryActOnWhatWasSeen(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	q, err := workqueue.Open(t.Context(), client, workqueue.Config{Queue: "q", Root: etcdtest.Root(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	put := func(key, value string) int64 {
		t.Helper()
		resp, err := client.Put(t.Context(), key, value)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Revision
	}
	by := func(rev int64) workqueue.By { return workqueue.By{Actor: "ann", Reason: "because", Revision: rev} }
	old := put(coreOf(q).Keys().Job("x"), "garbage")
	rev := put(coreOf(q).Keys().Job("x"), "more garbage")
	readable := put(coreOf(q).Keys().Job("y"), `{"w":"`+jobtest.Nonce+`","v":1,"id":"y"}`)
	newer := put(coreOf(q).Keys().Job("z"), `{"w":"`+jobtest.Nonce+`","v":3,"id":"z"}`)
	huge := put(coreOf(q).Keys().Job("h"), strings.Repeat("x", job.MaxSalvage+1))
	twice := put(coreOf(q).Keys().Job("t"), "garbage")
	put(coreOf(q).Keys().Dead("t"), `{"w":"`+jobtest.Nonce+`","v":1,"id":"t"}`)
	for name, tc := range map[string]struct {
		id  string
		rev int64
		err error
	}{
		"moved": {"x", old, workqueue.ErrConflict}, "nothing there": {"n", 5, workqueue.ErrNotFound}, "no revision": {"x", 0, coord.ErrInvalid},
		"readable": {"y", readable, workqueue.ErrNotApplicable}, "newer": {"z", newer, workqueue.ErrNewer}, "too large": {"h", huge, workqueue.ErrNotApplicable},
		"a dead letter is there": {"t", twice, workqueue.ErrNotApplicable}, "no name": {"", 5, coord.ErrInvalid},
	} {
		if j, err := Salvage(t.Context(), q, tc.id, by(tc.rev)); !errors.Is(err, tc.err) || j != nil {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
	j, err := Salvage(t.Context(), q, "x", by(rev))
	if err != nil || j.State != workqueue.StateDead || string(j.Payload) != "more garbage" {
		t.Fatalf("salvaged %+v, %v", j, err)
	}
	if got, err := q.Get(t.Context(), "x"); err != nil || got.Revision != j.Revision || got.Attempts[0].Actor != "ann" {
		t.Errorf("found %+v, %v", got, err)
	}
	if _, err := q.Requeue(t.Context(), "x", workqueue.By{Actor: "ann"}); err != nil {
		t.Error(err)
	}

	if _, err := Bury(t.Context(), q, "y", by(readable-1)); !errors.Is(err, workqueue.ErrConflict) {
		t.Errorf("buried what had moved: %v", err)
	}
	if j, err := Bury(t.Context(), q, "y", by(readable)); err != nil || j.State != workqueue.StateDead || j.Error != "because" {
		t.Errorf("buried %+v, %v", j, err)
	}
	if _, err := Bury(t.Context(), q, "y", workqueue.By{Actor: "ann"}); !errors.Is(err, workqueue.ErrNotApplicable) {
		t.Errorf("buried twice: %v", err)
	}
}
