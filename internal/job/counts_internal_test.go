package job

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
		_, err := Decode(value)
		if !errors.Is(err, ErrUndecodable) || errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", name, err)
		}
		kv := &mvccpb.KeyValue{Key: []byte(q.Keys.Job("x")), Value: value}
		if _, err := q.HeadOf(InJobs, kv); !strings.HasPrefix(field, "attempts.") && !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s: its head is read: %v", name, err)
		}
		r := Salvaged("x", value, err, testEvent(VerbBury))
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = Decode(b); err != nil || r.Kind != "k" || string(r.PayloadBytes()) != `"p"` {
			t.Errorf("%s: salvaged as %s: %v", name, b, err)
		}
	}
}

// Counts end where records may not go: what a transition writes can be read.
func TestCountsDoNotOverflow(t *testing.T) {
	r, where := jobIn("claimed")
	full := int(int64(maxCount))
	r.Attempt, r.Failures, r.Losses, r.LogTotal, r.MaxAttempts, r.MaxLosses = full, full, full, full, full, full
	r.Attempts = []Attempt{{Attempt: full, Outcome: OutcomeReleased, Owner: r.Owner, Repeated: full}}
	for _, v := range []Verb{VerbFail, VerbRelease, VerbReclaim, VerbComplete} {
		e := testEvent(v)
		e.Counted, e.Delay = true, func(n int) time.Duration { return Backoff{}.After(n, 0.5) }
		n, err := Transition(r, where, e)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		b, err := n.Record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if v != VerbComplete && v != VerbRelease && n.Where != InDead {
			t.Errorf("%s: it goes on for ever, in %d", v, n.Where)
		}
	}
}
