package workqueue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// claimAndLeave claims a job as a process would that ends with its claim open.
func claimAndLeave(t *testing.T, root string, q *workqueue.Queue) (session string, f coord.Fence) {
	t.Helper()
	cl := etcdtest.Shared(t).Client(t)
	s, err := coord.OpenSession(bounded(t), cl, coord.SessionConfig{Root: root, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t, cl, root, q, s)
	if err := s.Leave(bounded(t)); err != nil {
		t.Fatal(err)
	}
	return s.ID(), c.Fence()
}

func TestTakeUpGoesOnWhereAnotherProcessStopped(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	large := make([]byte, 4096)
	enqueue(t, q, workqueue.Params{ID: "j", Payload: large})
	_, f := claimAndLeave(t, root, q)

	other := openAt(t, cl, workqueue.Config{Root: root})
	c, err := other.ResumeClaim(bounded(t), "j", f.Token, f.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	if c.Token() != f.Token || len(c.Job().Payload) != len(large) || c.Job().Attempt != 1 {
		t.Errorf("took up token %s, payload of %d bytes, attempt %d", c.Token(), len(c.Job().Payload), c.Job().Attempt)
	}
	if err := c.Checkpoint(bounded(t), []byte(`"half"`)); err != nil {
		t.Fatal(err)
	}
	if c, err = other.ResumeClaim(bounded(t), "j", f.Token, ""); err != nil { // a third process, which kept no nonce
		t.Fatal(err)
	}
	if got := string(c.Job().Checkpoint); got != `"half"` {
		t.Errorf("checkpoint %s", got)
	}
	if err := c.Progress(bounded(t), []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(bounded(t), []byte("r")); err != nil {
		t.Fatal(err)
	}
	j, err := other.Get(bounded(t), "j")
	if err != nil || j.State != workqueue.StateDone || string(j.Result) != "r" {
		t.Errorf("got %+v, %v", j, err)
	}
}

// Whoever comes with a token of yesterday changes nothing, and leaves evidence.
func TestTakeUpWithAStaleTokenIsRefused(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, q, workqueue.Params{ID: "j"})
	owner, old := claimAndLeave(t, root, q)
	if _, err := admin.BreakClaim(bounded(t), q, "j", workqueue.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	_, now := claimAndLeave(t, root, q)

	late := openAt(t, cl, workqueue.Config{Root: root})
	for name, try := range map[string]struct {
		token coord.Token
		nonce string
		do    func(*workqueue.Claim) error
	}{
		"complete":       {old.Token, old.Nonce, func(c *workqueue.Claim) error { return c.Complete(bounded(t), []byte("late")) }},
		"without nonce":  {old.Token, "", func(c *workqueue.Claim) error { return c.Complete(bounded(t), []byte("late")) }},
		"fail":           {old.Token, "", func(c *workqueue.Claim) error { return c.Fail(bounded(t), errors.New("late")) }},
		"release":        {old.Token, "", func(c *workqueue.Claim) error { return c.Release(bounded(t)) }},
		"checkpoint":     {old.Token, "", func(c *workqueue.Claim) error { return c.Checkpoint(bounded(t), []byte("1")) }},
		"wrong nonce":    {now.Token, old.Nonce, func(c *workqueue.Claim) error { return c.Complete(bounded(t), nil) }},
		"of the future":  {now.Token + 1000, "", func(c *workqueue.Claim) error { return c.Complete(bounded(t), nil) }},
		"a wrong number": {1, "", func(c *workqueue.Claim) error { return c.Complete(bounded(t), nil) }},
	} {
		c, err := late.ResumeClaim(bounded(t), "j", try.token, try.nonce)
		if err == nil {
			err = try.do(c)
		}
		if !errors.Is(err, coord.ErrFenced) {
			t.Errorf("%s: got %v, want it fenced", name, err)
		}
	}
	j, err := late.Get(bounded(t), "j")
	if err != nil || j.State != workqueue.StateClaimed || j.Token != now.Token || j.Checkpoint != nil {
		t.Errorf("the job is %+v, %v; want it claimed with token %s", j, err, now.Token)
	}
	until(t, cl, root, "the evidence names the late owner", func() bool {
		found, err := admin.Refusals(bounded(t), late)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := found["j"]
		return ok && (r.Owner == owner || r.Token != old.Token)
	})

	c, err := late.ResumeClaim(bounded(t), "j", now.Token, now.Nonce)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(bounded(t), nil); err != nil {
		t.Errorf("the current owner is refused: %v", err)
	}
	if c, err = late.ResumeClaim(bounded(t), "j", now.Token, now.Nonce); err == nil {
		err = c.Complete(bounded(t), nil)
	}
	if !errors.Is(err, coord.ErrFenced) {
		t.Errorf("completing what is done: %v", err)
	}
}

func TestTakeUpRefusesBadInput(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	if _, err := q.ResumeClaim(bounded(t), "nobody", 7, ""); !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("got %v, want %v", err, workqueue.ErrNotFound)
	}
	for _, token := range []coord.Token{0, -1} {
		if _, err := q.ResumeClaim(bounded(t), "j", token, ""); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("token %s: got %v, want %v", token, err, coord.ErrInvalid)
		}
	}
}
