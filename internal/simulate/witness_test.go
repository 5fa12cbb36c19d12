package simulate

import (
	"encoding/json"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// stand is a witness of a trial of one job, and where its events come from.
type stand struct {
	*witness
	keys keyspace.QueueKeys
}

func newStand(t *testing.T) *stand {
	t.Helper()
	keys, err := keyspace.New("/t/")
	if err != nil {
		t.Fatal(err)
	}
	return &stand{&witness{root: "/t/", keys: keys, naive: "/t/naive/", story: newChronicle(1)}, keys.Queue(queueName)}
}

func put(key string, rev int64, value any) *clientv3.Event {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev, Value: b}}
}

func gone(key string, rev int64) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
}

type fields map[string]any

func doneUnder(token string) fields {
	return fields{"outcome": "completed", "attempts": []fields{{"attempt": 1, "token": token, "outcome": "completed"}}}
}

const (
	first  = "agent-1.00000000000000a1"
	second = "agent-2.00000000000000a2"
)

func TestWitnessSeesATakeoverAndALateSave(t *testing.T) {
	w := newStand(t)
	job := jobID(0)
	w.note([]*clientv3.Event{put(w.keys.Job(job), 3, fields{"id": job})}, at(0))
	w.note([]*clientv3.Event{put(w.keys.Job(job), 10, fields{"owner": first})}, at(1))
	w.note([]*clientv3.Event{gone("/t/sessions/"+first, 20)}, at(500))
	w.note([]*clientv3.Event{put(w.keys.Job(job), 21, fields{"owner": second})}, at(520))
	w.note([]*clientv3.Event{gone(w.keys.Job(job), 30), put(w.keys.Done(job), 30, doneUnder("21"))}, at(600))
	tr := w.story.truth
	if len(tr.late) != 0 || tr.duplicated() != 0 || !tr.finished() || len(tr.takeovers) != 1 {
		t.Fatalf("got %d late, %d duplicated, finished %v, %d takeovers; want 0, 0, true, 1", len(tr.late), tr.duplicated(), tr.finished(), len(tr.takeovers))
	}
	// What the library does not let happen must not escape the witness.
	w.note([]*clientv3.Event{put(w.keys.Done(job), 31, doneUnder("10"))}, at(610))
	if len(tr.late) != 1 || tr.duplicated() != 1 {
		t.Errorf("got %d late, %d duplicated behind a late save; want 1, 1", len(tr.late), tr.duplicated())
	}
	if k := w.story.moments[len(w.story.moments)-1].kind; k != tookOver {
		t.Errorf("the last moment is %q, want %q", k, tookOver)
	}
}

func TestWitnessSeesALateSaveThatIsNoDuplicate(t *testing.T) {
	w := newStand(t)
	job := jobID(0)
	w.note([]*clientv3.Event{put(w.keys.Job(job), 10, fields{"owner": first})}, at(1))
	w.note([]*clientv3.Event{put(w.keys.Job(job), 21, fields{"owner": second})}, at(520))
	w.note([]*clientv3.Event{put(w.keys.Done(job), 30, doneUnder("10"))}, at(600))
	if got := w.story.truth; len(got.late) != 1 || got.duplicated() != 0 {
		t.Errorf("got %d late, %d duplicated; want 1, 0", len(got.late), got.duplicated())
	}
}

func TestWitnessSeesNaiveDuplicates(t *testing.T) {
	w := newStand(t)
	key := "/t/naive/" + jobID(0)
	a, b := naiveJob{Agent: "agent-1", Run: 1}, naiveJob{Agent: "agent-2", Run: 1}
	for i, step := range []struct {
		j     naiveJob
		state string
	}{{naiveJob{}, naiveOpen}, {a, naiveTaken}, {b, naiveTaken}, {a, naiveDone}, {b, naiveDone}} {
		step.j.State = step.state
		w.note([]*clientv3.Event{put(key, int64(10+i), step.j)}, at(i))
	}
	if got := w.story.truth; got.duplicated() != 1 || len(got.late) != 2 || len(got.takeovers) != 0 {
		t.Errorf("got %d duplicated, %d late, %d takeovers; want 1, 2, 0", got.duplicated(), len(got.late), len(got.takeovers))
	}
}

func TestWitnessTellsALateAssignmentThatWroteFromOneThatDidNot(t *testing.T) {
	lane := "/t/lanes/dispatcher-1.00000000000000b1/0"
	for _, wrote := range []bool{false, true} {
		t.Run(fmt.Sprint("wrote=", wrote), func(t *testing.T) {
			w := newStand(t)
			w.note([]*clientv3.Event{put("/t/elections/dispatcher%3Arace/leader", 5, fields{"owner": "dispatcher-1.00000000000000c1"})}, at(0))
			w.note([]*clientv3.Event{put(lane, 9, fields{}), put(w.keys.Job(jobID(0)), 9, fields{"owner": first})}, at(1))
			if len(w.story.lateLanes) != 0 {
				t.Error("a batch of the leader counts as late")
			}
			w.note([]*clientv3.Event{put("/t/elections/dispatcher%3Arace/leader", 11, fields{"owner": "dispatcher-2.00000000000000c2"})}, at(2))
			w.lateOf = "dispatcher-1"
			events := []*clientv3.Event{put(lane, 12, fields{})}
			if wrote {
				events = append(events, put(w.keys.Job(jobID(0)), 12, fields{"owner": second}))
			}
			w.note(events, at(3))
			o := outcome{lateLanes: len(w.story.lateLanes), lateWrote: w.story.lateWrote, inFlight: 1}
			if got := o.lateAssignmentsRefused() == 0; got != wrote || (o.lateWrote > 0) != wrote {
				t.Errorf("got %d refused, %d written", o.lateAssignmentsRefused(), o.lateWrote)
			}
			if len(w.story.leaders) != 2 {
				t.Errorf("got %d leaders, want 2", len(w.story.leaders))
			}
		})
	}
}

func TestWitnessLeavesOrderlyEndsAlone(t *testing.T) {
	w := newStand(t)
	w.leaving = true
	w.note([]*clientv3.Event{gone("/t/sessions/"+first, 20)}, at(500))
	if len(w.story.moments) != 0 || len(w.story.truth.ended) != 0 {
		t.Errorf("got %v, want nothing: the session was closed in order", w.story.moments)
	}
}

func TestEventsAreGroupedByRevision(t *testing.T) {
	groups := byRevision([]*clientv3.Event{gone("a", 1), gone("b", 1), gone("c", 2)})
	if len(groups) != 2 || len(groups[0]) != 2 || len(groups[1]) != 1 {
		t.Errorf("got %v, want two events and one", groups)
	}
	if got := byRevision(nil); got != nil {
		t.Errorf("got %v of nothing", got)
	}
}
