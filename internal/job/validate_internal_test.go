package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Whatever is accepted at the API fits into one Txn, to its end.
func TestTheLargestJobFits(t *testing.T) {
	worst := strings.Repeat("\x01", maxLabelText) // six bytes each in JSON
	labels := map[string]string{}
	for i := range maxLabels {
		labels[strings.Repeat("<", 190)+fmt.Sprint(100+i)] = worst
	}
	p := Description{ID: strings.Repeat("/", 200), Payload: make([]byte, InlineLimit), Labels: labels, Trace: labels}
	if err := p.Validate(256 << 10); err != nil {
		t.Fatal(err)
	}
	r := New(p, 1, testNow)
	for range 3 * LogLimit {
		r.Log(Attempt{Outcome: OutcomeFailed, Owner: strings.Repeat("%2F", 200), Error: strings.Repeat("\x01", MaxError), Actor: worst, Reason: worst})
	}
	for name, unit := range map[string]string{"bytes": "\x00", "text of quotes": `"`, "text of separators": "\u2028\n"} {
		r.setResult(bytes.Repeat([]byte(unit), MaxResult/len(unit)))
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		// The rest of 1 MiB is the caller's, who completes with writes of its own.
		if len(b) > 900<<10 {
			t.Errorf("%s: the largest record has %d bytes", name, len(b))
		}
	}
}
