package workqueue

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

func init() {
	races["dead create ="] = "a job of that id died meanwhile, and its dead letter must not be overwritten"
	txnCases = append(txnCases,
		txnCase{"bury an open job", "intervene", intervening("open, later", job.VerbBury), []string{"dead/x", "payloads/x", "progress/x"}, guarding("job")},
		txnCase{"salvage a live record", "salvage", salvaging(job.InJobs), []string{"dead/x"}, guarding("job", "dead create =")},
		txnCase{"salvage a done record", "salvage", salvaging(job.InDone), []string{"dead/x"}, guarding("done", "dead create =")},
		txnCase{"salvage a dead record", "salvage", salvaging(job.InDead), []string{"dead/x"}, guarding("dead")},
	)
}

// salvaging puts a record that names another job.
func salvaging(where job.Place) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		kv := &mvccpb.KeyValue{Key: []byte(w.Key(where, "x")), Value: []byte(`{"w":"` + middleNonce + `","v":1,"id":"other"}`)}
		kv.ModRevision = w.put(string(kv.Key), string(kv.Value))
		e := jobtest.Event(job.VerbBury)
		e.Nonce = keyspace.NewNonce()
		return w.Txns.Salvage(kv, where, job.Salvaged("x", kv.Value, ErrUndecodable, e))
	}
}

// Decode reads what is a job's, and says of everything else why it is not.
func TestDecodeKnowsItsQueuesRecords(t *testing.T) {
	client := etcdtest.Shared(t).Client(t)
	q, err := Open(t.Context(), client, Config{Queue: "q", Root: etcdtest.Root(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r, _ := jobtest.In("claimed")
	value, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	gone := func(string, int64) bool { return false }
	for name, tc := range map[string]struct {
		key, value string
		lives      func(string, int64) bool
		state      State
		err        error
	}{
		"claimed":            {q.core.Keys().Job("x"), string(value), nil, StateClaimed, nil},
		"orphan":             {q.core.Keys().Job("x"), string(value), gone, StateOrphan, nil},
		"dead":               {q.core.Keys().Dead("x"), string(value), nil, StateDead, nil},
		"done":               {q.core.Keys().Done("x"), string(value), nil, StateDone, nil},
		"garbage":            {q.core.Keys().Job("x"), "garbage", nil, "", ErrUndecodable},
		"newer":              {q.core.Keys().Job("x"), `{"w":"` + jobtest.Nonce + `","v":3,"id":"x"}`, nil, "", ErrNewer},
		"another job's":      {q.core.Keys().Job("y"), string(value), nil, "", ErrUndecodable},
		"no key of a job":    {q.core.Keys().Config(), string(value), nil, "", coord.ErrInvalid},
		"another queue's":    {q.core.Store.Keys().Queue("p").Job("x"), string(value), nil, StateClaimed, nil},
		"in the wrong shard": {q.core.Keys().Jobs() + "zz/x", string(value), nil, "", coord.ErrInvalid},
		"elsewhere":          {"/elsewhere", string(value), nil, "", coord.ErrInvalid},
	} {
		j, err := (Queues{client, q.core.Store.Keys().Root()}).Decode(&mvccpb.KeyValue{Key: []byte(tc.key), Value: []byte(tc.value), ModRevision: 7}, tc.lives)
		if !errors.Is(err, tc.err) || (j == nil) != (tc.err != nil) {
			t.Errorf("%s: %+v, %v", name, j, err)
		} else if j != nil && (j.State != tc.state || j.ID != "x" || j.Revision != 7) {
			t.Errorf("%s: %+v", name, j)
		}
	}
}
