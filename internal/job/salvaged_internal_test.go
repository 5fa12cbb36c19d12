package job

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Whatever could not be read can be read afterwards, and nothing of it is lost.
func TestSalvagedRecordsAreReadableAndComplete(t *testing.T) {
	head := `{"w":"` + testNonce + `",`
	for name, tc := range map[string]struct {
		value string
		kept  func(r *Record) bool
	}{
		"no head": {`{"v":1,"id":"x","born":"b","kind":"k","payload":{"a":1},"new_field":7}`, func(r *Record) bool {
			return r.Kind == "k" && string(r.PayloadBytes()) == `{"a":1}` && string(r.extra["new_field"]) == "7" && r.Born == "b"
		}},
		"another name":      {head + `"v":1,"id":"y","payload_base64":"AAE="}`, func(r *Record) bool { return bytes.Equal(r.PayloadBytes(), []byte{0, 1}) }},
		"owner without rev": {head + `"v":1,"id":"x","owner":"s","assigned":true,"payload":5}`, func(r *Record) bool { return string(r.PayloadBytes()) == "5" && !r.Claimed() && !r.Assigned }},
		"payload beside":    {`{"v":1,"id":"x","payload_beside":3000}`, func(r *Record) bool { return r.Beside == 3000 }},
		"cut off":           {head + `"v":1,"id":"x","payl`, nil},
		"wrong type":        {head + `"v":1,"id":"x","attempts":"none"}`, nil},
		"no object":         {`null`, nil},
		"no JSON":           {"\x00\xff garbage", nil},
		"empty":             {"", func(r *Record) bool { return len(r.PayloadBytes()) == 0 }},
	} {
		e := testEvent(VerbBury)
		r := Salvaged("x", []byte(tc.value), fmt.Errorf("%w: for a reason", ErrUndecodable), e)
		b, err := r.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%s: cannot be read afterwards either: %v", name, err)
			continue
		}
		kept := tc.kept
		if kept == nil {
			kept = func(r *Record) bool { return string(r.PayloadBytes()) == tc.value }
		}
		if !kept(got) {
			t.Errorf("%s: became %s", name, b)
		}
		last := got.Attempts[len(got.Attempts)-1]
		if got.ID != "x" || got.Outcome != OutcomeDead || !strings.Contains(got.Error, "for a reason") || last.Actor != "ann" || last.Outcome != OutcomeBuried {
			t.Errorf("%s: nobody can see what happened: %s", name, b)
		}
	}
}

func TestANewerRecordIsNotBroken(t *testing.T) {
	_, err := Decode([]byte(`{"w":"` + testNonce + `","v":3,"id":"x"}`))
	if !errors.Is(err, ErrNewer) || !errors.Is(err, ErrUndecodable) {
		t.Errorf("got %v", err)
	}
	_, err = Decode([]byte(`{"w":"` + testNonce + `","v":1,"id":7}`))
	if errors.Is(err, ErrNewer) || !errors.Is(err, ErrUndecodable) {
		t.Errorf("got %v", err)
	}
}
