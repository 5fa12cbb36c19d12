package workqueue_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// busyQueue is a queue with jobs in every state and of every shape.
func busyQueue(t *testing.T, root string) *workqueue.Queue {
	t.Helper()
	cl := etcdtest.Shared(t).Client(t)
	q := openAt(t, cl, workqueue.Config{Root: root, Backoff: workqueue.Backoff{Initial: time.Hour, Max: time.Hour}})
	s := session(t, cl, root)
	enqueue(t, q,
		workqueue.Params{ID: "done", Priority: 9, Payload: bytes.Repeat([]byte("x"), 5000)},
		workqueue.Params{ID: "dead", Priority: 8, MaxAttempts: 1, Payload: bytes.Repeat([]byte("y"), 5000)},
		workqueue.Params{ID: "retry", Priority: 7, Payload: []byte(`{"a":[1,2]}`)},
		workqueue.Params{ID: "cancelled", Payload: []byte("\xff\x00")},
	)
	for _, id := range []string{"done", "dead", "retry"} {
		c := claim(t, cl, root, q, s)
		if c.Job().ID != id {
			t.Fatalf("claimed %s, want %s", c.Job().ID, id)
		}
		if err := c.Checkpoint(bounded(t), []byte(`"`+id+`"`)); err != nil {
			t.Fatal(err)
		}
		var err error
		switch id {
		case "done":
			err = c.Complete(bounded(t), []byte("result <&>"))
		default:
			err = c.Fail(bounded(t), errors.New("smtp 421"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Cancel(bounded(t), "cancelled", workqueue.By{Actor: "ana"}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q,
		workqueue.Params{ID: "a/b c", Kind: "send", Labels: map[string]string{"tenant": "42"}, Timeout: time.Second, MaxLosses: 7},
		workqueue.Params{ID: "low", Priority: -1}, workqueue.Params{ID: "later", RunAt: time.Now().Add(time.Hour)},
		workqueue.Params{ID: "large", Payload: bytes.Repeat([]byte{0, 1, 2, 255}, 1000)},
	)
	for i := range 20 {
		enqueue(t, q, workqueue.Params{ID: fmt.Sprintf("row-%02d", 20-i)})
	}
	return q
}

func export(t *testing.T, q *workqueue.Queue) (lines [][]byte) {
	t.Helper()
	for line, err := range admin.Export(bounded(t), q) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func wantImported(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("line %d: %v", i, err)
		}
	}
}

// What goes out and comes in again is the same, in the same order.
func TestExportAndImportRoundTrip(t *testing.T) {
	t.Parallel()
	from := busyQueue(t, etcdtest.Root(t))
	lines := export(t, from)
	if len(lines) != 28 {
		t.Fatalf("exported %d lines, want 28", len(lines))
	}
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)+"other/"
	to := openAt(t, cl, workqueue.Config{Root: root})
	wantImported(t, admin.Import(bounded(t), to, lines, false, workqueue.By{Actor: "ana"}))
	again := export(t, to)
	if len(again) != len(lines) {
		t.Fatalf("came back as %d lines", len(again))
	}
	for i := range lines {
		if !bytes.Equal(lines[i], again[i]) {
			t.Errorf("line %d\n%s\ncame back as\n%s", i, lines[i], again[i])
		}
	}
	j, err := to.Get(bounded(t), "dead")
	if err != nil || len(j.Payload) != 5000 || string(j.Checkpoint) != `"dead"` || j.Error != "smtp 421" {
		t.Errorf("the dead letter came as %+v, %v", j, err)
	}
	s := session(t, cl, root)
	if c := claim(t, cl, root, to, s); c.Job().ID == "low" {
		t.Errorf("claimed %s first", c.Job().ID)
	}
}

// An import that broke off is run once more, and does nothing twice.
func TestImportAgain(t *testing.T) {
	t.Parallel()
	from := busyQueue(t, etcdtest.Root(t))
	lines := export(t, from)
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)+"other/"
	to := openAt(t, cl, workqueue.Config{Root: root})
	by := workqueue.By{Actor: "ana"}
	wantImported(t, admin.Import(bounded(t), to, lines[:15], false, by))
	for _, replace := range []bool{false, true} {
		errs := admin.Import(bounded(t), to, lines, replace, by)
		for i, err := range errs {
			var exists *workqueue.ExistsError
			switch imported := i < 15 || replace; {
			case !imported && err != nil:
				t.Errorf("line %d: %v", i, err)
			case imported && !errors.As(err, &exists):
				t.Errorf("line %d, which is there, replace %v: %v", i, replace, err)
			case imported && !strings.Contains(string(lines[i]), strings.TrimPrefix(exists.Job.IdempotencyKey(), exists.Job.ID+"-")):
				t.Errorf("line %d exists as %s", i, exists.Job.IdempotencyKey())
			}
		}
	}
	again := export(t, to)
	for i := range lines {
		if !bytes.Equal(lines[i], again[i]) {
			t.Errorf("line %d\n%s\nis\n%s", i, lines[i], again[i])
		}
	}
}

func TestImportOverOtherJobs(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	from := openAt(t, cl, workqueue.Config{Root: root + "from/"})
	enqueue(t, from, workqueue.Params{ID: "open", Payload: []byte("new")}, workqueue.Params{ID: "claimed", Payload: []byte("new")})
	lines := export(t, from)
	to := openAt(t, cl, workqueue.Config{Root: root})
	enqueue(t, to, workqueue.Params{ID: "claimed", Priority: 1}, workqueue.Params{ID: "open", Payload: bytes.Repeat([]byte("o"), 3000)})
	c := claim(t, cl, root, to, session(t, cl, root))
	by := workqueue.By{Actor: "ana"}

	for i, err := range admin.Import(bounded(t), to, lines, false, by) {
		if !errors.Is(err, workqueue.ErrExists) {
			t.Errorf("line %d: %v, want that it exists", i, err)
		}
	}
	errs := admin.Import(bounded(t), to, lines, true, by)
	if errs[0] != nil || !errors.Is(errs[1], workqueue.ErrExists) {
		t.Errorf("replacing: %v; want the open one replaced and the claimed one left", errs)
	}
	if j, err := to.Get(bounded(t), "open"); err != nil || string(j.Payload) != "new" {
		t.Errorf("the open one is %+v, %v", j, err)
	}
	if err := c.Complete(bounded(t), nil); err != nil {
		t.Errorf("the owner of the claimed one is refused: %v", err)
	}
}

// A claim does not travel: its owner is not there.
func TestExportOfAClaimedJob(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	from := openAt(t, cl, workqueue.Config{Root: root + "from/"})
	enqueue(t, from, workqueue.Params{ID: "j"})
	claim(t, cl, root+"from/", from, session(t, cl, root+"from/"))
	to := openAt(t, cl, workqueue.Config{Root: root})
	wantImported(t, admin.Import(bounded(t), to, export(t, from), false, workqueue.By{Actor: "ana", Reason: "new cluster"}))
	j, err := to.Get(bounded(t), "j")
	if err != nil || j.State != workqueue.StateReady || j.Attempt != 1 {
		t.Fatalf("got %+v, %v", j, err)
	}
	if last := j.Attempts[len(j.Attempts)-1]; last.Actor != "ana" || last.Reason != "new cluster" {
		t.Errorf("its trail ends with %+v", last)
	}
	claim(t, cl, root, to, session(t, cl, root))
}

func TestImportRefusesBadLines(t *testing.T) {
	t.Parallel()
	cl, root := etcdtest.Shared(t).Client(t), etcdtest.Root(t)
	q := openAt(t, cl, workqueue.Config{Root: root})
	record := `{"v":1,"id":"j","born":"b","attempts_total":0}`
	lines := []string{
		"", "x", "{}", "[]", `{"v":1,"where":"jobs"}`, `{"v":2,"where":"jobs","record":` + record + `}`,
		`{"v":1,"where":"nowhere","record":` + record + `}`,
		`{"v":1,"where":"jobs","record":{"v":1,"id":"j"}}`,
		`{"v":1,"where":"jobs","record":{"v":9,"id":"j","born":"b"}}`,
		`{"v":1,"where":"jobs","record":{"v":1,"id":"a\u0000b","born":"b"}}`,
		`{"v":1,"where":"jobs","record":{"w":"0000000000000000","v":1,"id":"j","born":"b"}}`,
		`{"v":1,"where":"jobs","record":{"v":1,"id":"j","born":"b","payload_beside":5}}`,
		`{"v":1,"where":"done","record":{"v":1,"id":"j","born":"b","owner":"o","owner_rev":"4"}}`,
		`{"v":1,"where":"jobs","record":` + record + `,"progress":[1]}`,
	}
	var raw [][]byte
	for _, l := range lines {
		raw = append(raw, []byte(l))
	}
	for i, err := range admin.Import(bounded(t), q, raw, true, workqueue.By{Actor: "ana"}) {
		if !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%q: got %v, want %v", lines[i], err, coord.ErrInvalid)
		}
	}
	resp, err := cl.Get(bounded(t), root+"queues/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("something was written: %v, %v", resp.Kvs, err)
	}
}
