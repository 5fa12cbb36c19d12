package workqueue_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// manyQueues makes n queues: the first has more jobs than are read together with those of others, each other one a job
// that is ready, every third also a dead one, and every fifth one that was cancelled. What List and CountSince of each
// one say is what is wanted of all.
func manyQueues(t *testing.T, root string, n int) (names []string) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("q%03d", i)
		names = append(names, name)
		q := open(t, workqueue.Config{Root: root, Queue: name})
		params := []workqueue.Params{{ID: "ready"}, {ID: "readyness"}}
		if i == 0 {
			for j := range 200 {
				params = append(params, workqueue.Params{ID: fmt.Sprintf("more-%03d", j), Priority: j % 3})
			}
		}
		if _, err := q.EnqueueBatch(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := admin.Bury(t.Context(), q, "readyness", workqueue.By{}); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 0 {
			if _, err := q.Enqueue(t.Context(), workqueue.Params{ID: "over"}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Cancel(t.Context(), "over", workqueue.By{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return names
}

func refs(t *testing.T, jobs func(func(*workqueue.Job, error) bool)) (refs []string) {
	t.Helper()
	for j, err := range jobs {
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, j.Queue+"/"+j.ID+" "+string(j.State))
	}
	return refs
}

// What is listed and counted of many queues is what each one says of itself, whatever the limit, and with far fewer
// requests than there are queues.
func TestManyQueuesAreReadTogether(t *testing.T) {
	var rec etcdtest.Recorder
	root, client := etcdtest.Root(t), etcdtest.Shared(t).Client(t, rec.DialOptions()...)
	queues := workqueue.Queues{Client: client, Root: root}
	const n = 150
	names := manyQueues(t, root, n)
	sent := func() (sum int) {
		for _, count := range rec.Counts() {
			sum += count
		}
		return sum
	}
	for what, f := range map[string]workqueue.Filter{
		"all": {}, "dead": {States: []workqueue.State{workqueue.StateDead}}, "one ID": {ID: "ready"},
		"done": {States: []workqueue.State{workqueue.StateCancelled}}, "matching": {Match: func(j *workqueue.Job) bool { return j.ID != "ready" }},
	} {
		var want []string
		for _, name := range names {
			q := open(t, workqueue.Config{Root: root, Queue: name})
			want = append(want, refs(t, q.List(t.Context(), f))...)
		}
		rec.Reset()
		if got := refs(t, queues.List(t.Context(), names, f)); !slices.Equal(got, want) || len(got) < n/5 {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		if got := sent(); got > n/5 {
			t.Errorf("%s: %d requests: %v", what, got, rec.Counts())
		}
		for _, limit := range []int{1, 7, 199, 230} {
			f.Limit = limit
			if got, some := refs(t, queues.List(t.Context(), names, f)), want[:min(limit, len(want))]; !slices.Equal(got, some) {
				t.Errorf("%s, limit %d: got %q, want %q", what, limit, got, some)
			}
		}
	}

	since := time.Now().Add(-time.Hour)
	rec.Reset()
	i := 0
	for s, err := range admin.CountAll(t.Context(), queues, names, since) {
		q := open(t, workqueue.Config{Root: root, Queue: names[i]})
		want, werr := admin.CountSince(t.Context(), q, since)
		if err != nil || werr != nil || fmt.Sprint(s) != fmt.Sprint(want) || s.Queue != names[i] || s.Jobs[workqueue.StateReady] == 0 {
			t.Errorf("%s: got %+v %v, want %+v %v", names[i], s, err, want, werr)
		}
		i++
	}
	if got := sent(); i != n || got > n/3 {
		t.Errorf("%d queues were counted with %d requests: %v", i, got, rec.Counts())
	}
	rec.Reset()
	if got, err := queues.Names(t.Context()); err != nil || !slices.Equal(got, names) || sent() > 2 { // the opening of a stream and its question
		t.Errorf("got %q, %v with %d requests", got, err, sent())
	}
}

// A config that cannot be read hides nothing of the other queues, and a name that cannot be is refused before anything
// is asked.
func TestManyQueuesGoOnBehindAnUnreadableConfig(t *testing.T) {
	root, client := etcdtest.Root(t), etcdtest.Shared(t).Client(t)
	for _, name := range []string{"a", "b", "c"} {
		q := open(t, workqueue.Config{Root: root, Queue: name})
		if _, err := q.Enqueue(t.Context(), workqueue.Params{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Put(t.Context(), root+"queues/b/config", "{"); err != nil {
		t.Fatal(err)
	}
	queues := workqueue.Queues{Client: client, Root: root}
	var counted []string
	for s, err := range admin.CountAll(t.Context(), queues, []string{"a", "b", "c"}, time.Time{}) {
		if bad := errors.Is(err, workqueue.ErrUndecodable); bad != (s.Queue == "b") || err != nil && !bad || err == nil && s.Jobs[workqueue.StateReady] != 1 {
			t.Errorf("%s: %+v, %v", s.Queue, s, err)
		}
		counted = append(counted, s.Queue)
	}
	if !slices.Equal(counted, []string{"a", "b", "c"}) {
		t.Errorf("counted %q", counted)
	}
	for range admin.CountAll(t.Context(), queues, nil, time.Time{}) {
		t.Error("of no queue something was counted")
	}
	for _, err := range admin.CountAll(t.Context(), queues, []string{""}, time.Time{}) {
		if err == nil {
			t.Error("a queue without a name was counted")
		}
	}
	for _, err := range queues.List(t.Context(), []string{"a", ""}, workqueue.Filter{}) {
		if err == nil {
			t.Error("a queue without a name was listed")
		}
	}
}

// An export reads what lies beside jobs for several of them together, and as it was.
func TestExportReadsWhatLiesBesideTogether(t *testing.T) {
	var rec etcdtest.Recorder
	root, client := etcdtest.Root(t), etcdtest.Shared(t).Client(t, rec.DialOptions()...)
	q, err := workqueue.Open(t.Context(), client, workqueue.Config{Root: root, Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	const n = 160
	params := make([]workqueue.Params, n)
	for i := range params {
		params[i] = workqueue.Params{ID: fmt.Sprintf("%03d", i), Payload: bytes.Repeat([]byte{byte('a' + i%26)}, 2000+i)}
	}
	if _, err := q.EnqueueBatch(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	rec.Reset()
	seen := 0
	for line, err := range admin.Export(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		if seen == 0 { // what is written from now on is not seen
			if _, err := client.Delete(t.Context(), root+"queues/q/payloads/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		}
		var got struct {
			Payload []byte `json:"payload_beside_base64"`
		}
		if err := json.Unmarshal(line, &got); err != nil || !bytes.Equal(got.Payload, params[seen].Payload) {
			t.Errorf("job %d came with a payload of %d bytes, want %d, %v", seen, len(got.Payload), len(params[seen].Payload), err)
		}
		seen++
	}
	if sent := rec.Count("Range") + rec.Count("Txn"); seen != n || sent > n/8 {
		t.Errorf("%d jobs were exported with %d requests: %v", seen, sent, rec.Counts())
	}
}
