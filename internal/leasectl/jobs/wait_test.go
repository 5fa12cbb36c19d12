package jobs

import (
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// jobs wait looks twice by ID, and is told of the job that it met first, whoever has the ID by then.
func TestJobsWaitKeepsToTheJobThatItMet(t *testing.T) {
	t.Parallel()
	client := etcdtest.NewClient(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
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
	a, ref := &cli.App{Settings: connect.Settings{DialTimeout: time.Minute}}, cli.JobRef{Queue: "mail", ID: "a"}
	enqueue := func() {
		t.Helper()
		if _, err := q.Enqueue(t.Context(), workqueue.Params{ID: ref.ID}); err != nil {
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
	if now, err := getSame(t.Context(), a, q, ref, met); !errors.Is(err, workqueue.ErrNotFound) || exit.Code(err) != exit.NotFound {
		t.Errorf("with nothing left of it: got %v, %v", now, err)
	}
}
