package queues

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// A change of a queue whose config has moved since it was shown is a conflict, and
// changes nothing.
func TestQueueChangeConflicts(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	mail, err := workqueue.Open(t.Context(), etcdtest.NewClient(t, etcd.Endpoints()), workqueue.Config{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	defer mail.Close()
	by := workqueue.By{Actor: "other"}
	if err := mail.Pause(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &cli.App{Out: &out, Err: &bytes.Buffer{}, Getenv: func(string) string { return "" },
		Settings: connect.Settings{Endpoints: etcd.Endpoints()[0], Root: connect.DefaultRoot, DialTimeout: time.Minute}}
	moved := false
	err = runQueueChange(t.Context(), a, "mail", cli.Mutation{}, queueChange{what: "set", past: "set", do: func(ctx context.Context, q *workqueue.Queue, seen workqueue.By) error {
		moved = true
		if err := mail.Pause(ctx, by); err != nil {
			return err
		}
		return q.SetMode(ctx, "dispatch", seen)
	}})
	if !moved || exit.Code(err) != exit.Conflict || out.Len() > 0 {
		t.Errorf("got %v, and %q on stdout", err, out.String())
	}
	if st, err := admin.Count(t.Context(), mail); err != nil || st.Mode != "claim" || !st.Paused {
		t.Errorf("got %+v, %v", st, err)
	}
}
