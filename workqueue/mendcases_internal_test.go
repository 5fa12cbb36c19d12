package workqueue

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
)

func init() {
	races["dead create ="] = "a job of that id died meanwhile, and its dead letter must not be overwritten"
	txnCases = append(txnCases,
		txnCase{"bury an open job", "intervene", intervening("open, later", verbBury), []string{"dead/x", "payloads/x", "progress/x"}, guarding("job")},
		txnCase{"salvage a live record", "salvage", salvaging(inJobs), []string{"dead/x"}, guarding("job", "dead create =")},
		txnCase{"salvage a done record", "salvage", salvaging(inDone), []string{"dead/x"}, guarding("done", "dead create =")},
		txnCase{"salvage a dead record", "salvage", salvaging(inDead), []string{"dead/x"}, guarding("dead")},
	)
}

// salvaging puts a record that names another job.
func salvaging(where place) func(w *world) (coord.Txn, error) {
	return func(w *world) (coord.Txn, error) {
		kv := &mvccpb.KeyValue{Key: []byte(w.key(where, "x")), Value: []byte(`{"w":"` + middleNonce + `","v":1,"id":"other"}`)}
		kv.ModRevision = w.put(string(kv.Key), string(kv.Value))
		e := testEvent(verbBury)
		e.nonce = coord.NewNonce()
		return w.txns.salvage(kv, where, salvaged("x", kv.Value, ErrUndecodable, e))
	}
}

// Whatever could not be read can be read afterwards, and nothing of it is lost.
func TestSalvagedRecordsAreReadableAndComplete(t *testing.T) {
	head := `{"w":"` + testNonce + `",`
	for name, tc := range map[string]struct {
		value string
		kept  func(r *record) bool
	}{
		"no head": {`{"v":1,"id":"x","born":"b","kind":"k","payload":{"a":1},"new_field":7}`, func(r *record) bool {
			return r.Kind == "k" && string(r.payload()) == `{"a":1}` && string(r.extra["new_field"]) == "7" && r.Born == "b"
		}},
		"another name":      {head + `"v":1,"id":"y","payload_base64":"AAE="}`, func(r *record) bool { return bytes.Equal(r.payload(), []byte{0, 1}) }},
		"owner without rev": {head + `"v":1,"id":"x","owner":"s","assigned":true,"payload":5}`, func(r *record) bool { return string(r.payload()) == "5" && !r.claimed() && !r.Assigned }},
		"payload beside":    {`{"v":1,"id":"x","payload_beside":3000}`, func(r *record) bool { return r.Beside == 3000 }},
		"cut off":           {head + `"v":1,"id":"x","payl`, nil},
		"wrong type":        {head + `"v":1,"id":"x","attempts":"none"}`, nil},
		"no object":         {`null`, nil},
		"no JSON":           {"\x00\xff garbage", nil},
		"empty":             {"", func(r *record) bool { return len(r.payload()) == 0 }},
	} {
		e := testEvent(verbBury)
		r := salvaged("x", []byte(tc.value), fmt.Errorf("%w: for a reason", ErrUndecodable), e)
		b, err := r.encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := decodeRecord(b)
		if err != nil {
			t.Errorf("%s: cannot be read afterwards either: %v", name, err)
			continue
		}
		kept := tc.kept
		if kept == nil {
			kept = func(r *record) bool { return string(r.payload()) == tc.value }
		}
		if !kept(got) {
			t.Errorf("%s: became %s", name, b)
		}
		last := got.Attempts[len(got.Attempts)-1]
		if got.ID != "x" || got.Outcome != outcomeDead || !strings.Contains(got.Error, "for a reason") || last.Actor != "ann" || last.Outcome != outcomeBuried {
			t.Errorf("%s: nobody can see what happened: %s", name, b)
		}
	}
}

func TestANewerRecordIsNotBroken(t *testing.T) {
	_, err := decodeRecord([]byte(`{"w":"` + testNonce + `","v":2,"id":"x"}`))
	if !errors.Is(err, ErrNewer) || !errors.Is(err, ErrUndecodable) {
		t.Errorf("got %v", err)
	}
	_, err = decodeRecord([]byte(`{"w":"` + testNonce + `","v":1,"id":7}`))
	if errors.Is(err, ErrNewer) || !errors.Is(err, ErrUndecodable) {
		t.Errorf("got %v", err)
	}
}
