package leasectl

import (
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// jobs wait looks twice by ID, and is told of the job that it met first, whoever has the ID by then.
func TestJobsWaitKeepsToTheJobThatItMet(t *testing.T) {
	t.Parallel()
	client := etcdtest.NewClient(t, startEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	q, err := workqueue.Open(t.Context(), client, workqueue.Config{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	s, err := coord.OpenSession(t.Context(), client, coord.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	a, ref := &app{settings: settings{dialTimeout: time.Minute}}, jobRef{"mail", "a"}
	enqueue := func() {
		t.Helper()
		if _, err := q.Enqueue(t.Context(), workqueue.Params{ID: ref.id}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue()
	met, err := getSame(t.Context(), a, q, ref, nil)
	if err != nil || met.State != workqueue.StateReady {
		t.Fatalf("got %v, %v", met, err)
	}
	var c *workqueue.Claim
	for c == nil {
		if c, err = q.Claim(t.Context(), s); err != nil && !errors.Is(err, workqueue.ErrEmpty) {
			t.Fatal(err)
		}
	}
	if now, err := getSame(t.Context(), a, q, ref, met); err != nil || now.State != workqueue.StateClaimed {
		t.Errorf("the job itself, claimed: got %v, %v", now, err)
	}
	if err := c.Complete(t.Context(), []byte("first")); err != nil {
		t.Fatal(err)
	}
	enqueue()
	if now, err := getSame(t.Context(), a, q, ref, met); err != nil || now.State != workqueue.StateDone || string(now.Result) != "first" {
		t.Errorf("behind the next of its ID: got %v, %v", now, err)
	}
	last, err := client.Put(t.Context(), "other", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), last.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if now, err := getSame(t.Context(), a, q, ref, met); !errors.Is(err, workqueue.ErrNotFound) || exitCode(err) != exitNotFound {
		t.Errorf("with nothing left of it: got %v, %v", now, err)
	}
}

// What an export left out ends it with one code, and says why.
func TestExportSaysWhatItLeftOut(t *testing.T) {
	for _, tc := range []struct {
		sum  exportCount
		want string
	}{
		{exportCount{written: 5}, ""},
		{exportCount{unread: 1}, "1 record left out, which cannot be read"},
		{exportCount{changed: 2}, "2 jobs left out, which changed meanwhile"},
		{exportCount{unread: 2, changed: 1}, "2 records left out, which cannot be read, and 1 job, which changed meanwhile"},
	} {
		switch err := tc.sum.verdict(); {
		case tc.want == "" && err != nil:
			t.Errorf("%+v: got %v", tc.sum, err)
		case tc.want != "" && (err == nil || err.Error() != tc.want || exitCode(err) != exitPartly):
			t.Errorf("%+v: got %v, want %q", tc.sum, err, tc.want)
		}
	}
}
