package workqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// wrongNumbers are members of a record that no transition writes.
var wrongNumbers = map[string]string{
	"attempt": `"attempt":-1`, "attempt too large": `"attempt":9007199254740993`,
	"failures": `"failures":9223372036854775807`, "failures too many": `"failures":-9223372036854775808`,
	"losses": `"losses":-1`, "max_attempts": `"max_attempts":-5`, "max_losses": `"max_losses":9223372036854775807`,
	"timeout_ms": `"timeout_ms":9223372036854775807`, "timeout_ms negative": `"timeout_ms":-1`,
	"payload_beside": `"payload_beside":-1`, "payload_beside too large": `"payload_beside":1073741825`,
	"attempts_total": `"attempts_total":-1`, "attempts.repeated": `"attempts":[{"attempt":1,"outcome":"snoozed","repeated":9223372036854775807}]`,
	"attempts.attempt": `"attempts":[{"attempt":1,"outcome":"failed"},{"attempt":-1,"outcome":"failed"}]`,
}

// Counts that would overflow, or that are negative, are no record's: wherever it is read
// it is undecodable, and salvage keeps the rest.
func TestWrongNumbersAreRefusedWhereTheyAreRead(t *testing.T) {
	q := testTxns(t, "/r/")
	for name, member := range wrongNumbers {
		field, _, _ := strings.Cut(name, " ")
		value := []byte(fmt.Sprintf(`{"w":%q,"v":1,"id":"x","born":"b","kind":"k","payload":"p",%s}`, testNonce, member))
		_, err := decodeRecord(value)
		if !errors.Is(err, ErrUndecodable) || errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", name, err)
		}
		kv := &mvccpb.KeyValue{Key: []byte(q.keys.Job("x")), Value: value}
		if _, err := q.headOf(inJobs, kv); !strings.HasPrefix(field, "attempts.") && !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: its head is read: %v", name, err)
		}
		r := salvaged("x", value, err, testEvent(verbBury))
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = decodeRecord(b); err != nil || r.Kind != "k" || string(r.payload()) != `"p"` {
			t.Errorf("%s: salvaged as %s: %v", name, b, err)
		}
		if im := (&importing{q: &Queue{cfg: Config{}.withDefaults()}}); im.read(exportedOf(places[inJobs], `{"v":1,"id":"x","born":"b",`+member+`}`, "")) == nil {
			t.Errorf("%s: it is imported", name)
		}
	}
}

// Counts end where records may not go: what a transition writes can be read.
func TestCountsDoNotOverflow(t *testing.T) {
	r, where := jobIn("claimed")
	full := int(int64(maxCount))
	r.Attempt, r.Failures, r.Losses, r.LogTotal, r.MaxAttempts, r.MaxLosses = full, full, full, full, full, full
	r.Attempts = []Attempt{{Attempt: full, Outcome: outcomeReleased, Owner: r.Owner, Repeated: full}}
	for _, v := range []verb{verbFail, verbRelease, verbReclaim, verbComplete} {
		e := testEvent(v)
		e.counted, e.delay = true, func(n int) time.Duration { return Backoff{}.After(n, 0.5) }
		n, err := transition(r, where, e)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		b, err := n.record.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRecord(b); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if v != verbComplete && v != verbRelease && n.where != inDead {
			t.Errorf("%s: it goes on for ever, in %d", v, n.where)
		}
	}
}

// An import takes what enqueue and handlers may leave, and nothing else.
func TestImportValidatesAsEnqueueDoes(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	many := make([]string, 21)
	for i := range many {
		many[i] = `{"attempt":1,"outcome":"failed"}`
	}
	for name, tc := range map[string]struct{ where, members, rest, want string }{
		"kind too long":       {"jobs", `"kind":"` + long + `"`, "", "kind"},
		"kind with NUL":       {"dead", `"kind":"a\u0000"`, "", "kind"},
		"trace too long":      {"jobs", `"trace":{"traceparent":"` + long + `"}`, "", "trace.traceparent"},
		"trace with NUL":      {"jobs", `"trace":{"traceparent":"a\u0000"}`, "", "trace.traceparent"},
		"trace name with NUL": {"done", `"trace":{"a\u0000":"a"}`, "", "trace"},
		"label too long":      {"jobs", `"labels":{"a":"` + long + `"}`, "", "labels.a"},
		"label with NUL":      {"jobs", `"labels":{"a":"\u0000"}`, "", "labels.a"},
		"run at":              {"jobs", `"run_at":"1969-01-01T00:00:00Z"`, "", "run at"},
		"payload":             {"jobs", `"payload":"` + long + long + `"`, "", "payload"},
		"result":              {"done", `"result":"` + long + long + `"`, "", "result"},
		"trail":               {"jobs", `"attempts":[` + strings.Join(many, ",") + `]`, "", "trail"},
		"progress":            {"jobs", `"attempt":1`, `,"progress":{"token":"1","progress":"` + long + `"}`, "progress"},
		"checkpoint":          {"dead", `"attempt":1`, `,"progress":{"token":"1","checkpoint":"` + long + `"}`, "checkpoint"},
	} {
		im := &importing{q: &Queue{cfg: Config{}.withDefaults()}}
		if err := im.read(exportedOf(tc.where, `{"v":1,"id":"x","born":"b",`+tc.members+`}`, tc.rest)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A salvaged record may be larger than a payload, and goes out and in again.
	im := &importing{q: &Queue{cfg: Config{}.withDefaults()}}
	r := salvaged("x", []byte(long+long), ErrUndecodable, testEvent(verbBury))
	b, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	record, err := without(b, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := im.read(exportedOf("dead", string(record), "")); err != nil {
		t.Errorf("a salvaged one: %v", err)
	}
}
