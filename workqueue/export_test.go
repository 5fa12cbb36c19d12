package workqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// exportStage is a queue that changes under an export, on a cluster whose past is
// compacted under it.
type exportStage struct {
	t    *testing.T
	cl   *clientv3.Client
	root string
	q    *workqueue.Queue
	s    *coord.Session
	held *workqueue.Claim // "held"
}

// together are the jobs of which what lies beside is read with the first one's.
var together = []string{"t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11", "t12", "t13", "t14", "t15"}

// newExportStage makes jobs of every kind, most of them with something beside.
func newExportStage(t *testing.T) *exportStage {
	t.Helper()
	cl, root := etcdtest.New(t, etcdtest.Config{}).Client(t), etcdtest.Root(t)
	e := &exportStage{t: t, cl: cl, root: root, q: openAt(t, cl, workqueue.Config{Root: root}), s: session(t, cl, root)}
	for _, id := range []string{"held", "buried", "ended"} { // one after the other, so that each is claimed
		enqueue(t, e.q, workqueue.Params{ID: id, Payload: bigPayload})
		c := claim(t, cl, root, e.q, e.s)
		e.must(c.Checkpoint(bounded(t), []byte(`"one"`)))
		switch id {
		case "held":
			e.held = c
		case "buried":
			e.must(c.Fail(bounded(t), workqueue.Permanent(errors.New("no"))))
		default:
			e.must(c.Complete(bounded(t), []byte("r")))
		}
	}
	enqueue(t, e.q, workqueue.Params{ID: "first", Priority: 9})
	for _, id := range together {
		enqueue(t, e.q, workqueue.Params{ID: id, Priority: 8, Payload: bigPayload})
	}
	for _, id := range []string{"still", "edited", "deleted", "again", "cancelled", "moved"} {
		enqueue(t, e.q, workqueue.Params{ID: id, Payload: bigPayload})
	}
	enqueue(t, e.q, workqueue.Params{ID: "small", Payload: []byte("small")})
	return e
}

func (e *exportStage) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// change changes most of the jobs.
func (e *exportStage) change() {
	e.t.Helper()
	ctx, other := bounded(e.t), bytes.ToUpper(bigPayload)
	edit := func(id string, payload []byte) {
		e.must(then(admin.Edit(ctx, e.q, id, func(p *workqueue.Params) error { p.Payload = payload; return nil }, tester)))
	}
	edit("edited", other)
	edit(together[7], other)
	edit("small", []byte("other"))
	e.must(then(admin.Delete(ctx, e.q, "deleted", tester)))
	e.must(then(admin.Delete(ctx, e.q, "again", tester)))
	enqueue(e.t, e.q, workqueue.Params{ID: "again", Payload: other})
	e.must(then(e.q.Cancel(ctx, "cancelled", tester)))
	e.must(then(admin.Move(ctx, e.q, "moved", "other", tester)))
	e.must(then(e.q.Requeue(ctx, "buried", tester)))
	e.must(e.held.Checkpoint(ctx, []byte(`"two"`)))
}

// byID is an export's lines, by the job's id.
func byID(t *testing.T, lines [][]byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, line := range lines {
		var l struct {
			Record struct {
				ID string `json:"id"`
			} `json:"record"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		found[l.Record.ID] = string(line)
	}
	return found
}

// An export that is slower than compaction, while the queue changes: what it yields of a
// job is what was true at one moment, payload and progress included, or an error of that
// job alone. Nothing is left out silently.
func TestASlowExportTellsTheTruth(t *testing.T) {
	t.Parallel()
	e := newExportStage(t)
	before := byID(t, export(t, e.q))
	lines, wrong := [][]byte(nil), []string(nil)
	for line, err := range admin.Export(bounded(t), e.q) {
		switch {
		case errors.Is(err, workqueue.ErrConflict):
			wrong = append(wrong, strings.TrimPrefix(strings.Split(err.Error(), ":")[0], "export job "))
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, line)
		}
		if len(lines)+len(wrong) == 1 {
			e.change()
			compactAll(t, e.cl, e.root)
		}
	}
	got, after := byID(t, lines), byID(t, export(t, e.q))
	for id, line := range got {
		if line != before[id] && line != after[id] {
			t.Errorf("%s was never so: %.300s", id, line)
		}
	}
	slices.Sort(wrong)
	if want := []string{"again", "buried", "cancelled", "deleted", "edited", "moved"}; !slices.Equal(wrong, want) {
		t.Errorf("errors of %q, want of %q", wrong, want)
	}
	if want := append([]string{"ended", "first", "held", "small", "still"}, together...); !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("lines of %q, want of %q", slices.Sorted(maps.Keys(got)), want)
	}
	if !strings.Contains(got["held"], `"two"`) || got["small"] != before["small"] || got[together[7]] != before[together[7]] {
		t.Error("what is beside is read now, unless it was read before; the records were")
	}
}

// What is compacted while the records are being read is read again, from the beginning.
func TestAnExportBeginsAnewAfterACompaction(t *testing.T) {
	t.Parallel()
	e := newExportStage(t)
	scans := 0
	q := openAt(t, etcdtest.NewClient(t, e.cl.Endpoints(), grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if strings.Contains(method, "RangeStream") {
				if scans++; scans == 2 { // live jobs are read, dead ones are not
					e.change()
					compactAll(t, e.cl, e.root)
				}
			}
			return stream(ctx, desc, cc, method, opts...)
		})), workqueue.Config{Root: e.root})
	got := byID(t, export(t, q))
	if after := byID(t, export(t, e.q)); !maps.Equal(got, after) {
		t.Errorf("exported %q, want what is there now", slices.Sorted(maps.Keys(got)))
	}
	if scans < 5 {
		t.Errorf("%d scans, want those of two tries", scans)
	}
}
