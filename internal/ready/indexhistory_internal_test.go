package ready

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job/jobtest"
)

// A record of the same revision and another nonce is of another history: the index
// shows it, and offers no guard that can never hold.
func TestTheIndexTellsHistoriesApart(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	old, now := jobtest.Twice(t, txns.Keys.Job("x"), "open, due", 10)
	for name, show := range map[string]func(x *Index, c Candidate){
		"a list":    func(x *Index, _ Candidate) { jobSink{x}.Reset([]*mvccpb.KeyValue{now}, 10) },
		"an event":  func(x *Index, _ Candidate) { jobSink{x}.Apply([]*clientv3.Event{{Kv: now}}, 10) },
		"a refusal": func(x *Index, c Candidate) { x.Refused(c, now) },
	} {
		t.Run(name, func(t *testing.T) {
			x := NewIndex(txns.Space, "q")
			jobSink{x}.Reset([]*mvccpb.KeyValue{old}, 10)
			ask := Claimant{SID: "me", TTL: time.Minute}
			c, ok := x.First(0, ask)
			if !ok {
				t.Fatal("the job cannot be claimed")
			}
			show(x, c)
			if c, ok := x.First(0, ask); !ok || !c.IsFrom(now) {
				t.Errorf("it is offered %t, with the nonce %s", ok, x.jobs["x"].Record.Nonce)
			}
		})
	}
}

// What an answer brings that the mirror has overtaken is not taken in, and a refusal by
// the very record that was seen moves nothing.
func TestARefusalBringsNothingOlder(t *testing.T) {
	txns := jobtest.Txns(t, "/t/")
	old, other := jobtest.Twice(t, txns.Keys.Job("x"), "open, due", 10)
	newer, _ := jobtest.Twice(t, txns.Keys.Job("x"), "open, due", 12)
	x := NewIndex(txns.Space, "q")
	jobSink{x}.Reset([]*mvccpb.KeyValue{old}, 10)
	c, _ := x.First(0, Claimant{SID: "me"})
	if x.Refused(c, old) {
		t.Error("the job is said to have moved, and has not")
	}
	jobSink{x}.Apply([]*clientv3.Event{{Kv: newer}}, 12)
	if x.Refused(c, other); x.jobs["x"].Rev != 12 {
		t.Errorf("the index went back to revision %d", x.jobs["x"].Rev)
	}
	jobSink{x}.Reset(nil, 13)
	if x.Refused(c, other); len(x.jobs) != 0 {
		t.Error("a job came back that is gone")
	}
}
