package workqueue_test

import (
	"errors"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// The revision of a job that nobody has claimed is a number like any token, but no
// claim: whoever comes with it changes nothing.
func TestTakeUpOfAnOpenJob(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	rev := enqueue(t, q, workqueue.Params{ID: "j"})[0].Revision
	c, err := q.ResumeClaim(bounded(t), "j", coord.Token(rev), "")
	if err == nil {
		err = c.Complete(bounded(t), []byte("r"))
	}
	if !errors.Is(err, coord.ErrFenced) {
		t.Errorf("got %v, want it fenced", err)
	}
	if j, err := q.Get(bounded(t), "j"); err != nil || j.State != workqueue.StateReady || j.Revision != rev {
		t.Errorf("the job is %+v, %v", j, err)
	}
}
