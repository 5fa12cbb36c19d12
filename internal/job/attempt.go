package job

import (
	"slices"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// The outcomes in the audit trail of a job, and of a job that is over.
const (
	OutcomeCompleted = "completed" // the result was accepted
	OutcomeFailed    = "failed"    // the handler returned an error, panicked, or timed out
	OutcomeLost      = "lost"      // the owner's session ended first
	OutcomeReleased  = "released"  // given back, counted as nothing
	OutcomeSnoozed   = "snoozed"   // put off by the handler, counted as nothing
	OutcomeCancelled = "cancelled" // by the handler or by somebody else
	OutcomeDead      = "dead"      // failed for good
	OutcomeRequeued  = "requeued"  // brought back by somebody
	OutcomeBroken    = "broken"    // the claim was broken by somebody
	OutcomeBuried    = "buried"    // moved to dead by somebody
	OutcomeEdited    = "edited"    // described anew by somebody
	OutcomeMoved     = "moved"     // to another queue by somebody
)

// Attempt is one entry of a job's audit trail, as the record keeps it.
type Attempt struct {
	Attempt   int       `json:"attempt"`
	Owner     string    `json:"owner,omitempty"`
	Token     Token     `json:"token,omitempty"`
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Outcome   string    `json:"outcome"`
	Error     string    `json:"error,omitempty"`
	Actor     string    `json:"actor,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	From      string    `json:"from,omitempty"`
	Counted   bool      `json:"counted,omitempty"`
	Repeated  int       `json:"repeated,omitempty"`
}

// Token is the fencing token of a claim, a decimal string in JSON: revisions can exceed
// 2^53.
type Token int64

// MarshalJSON writes a decimal string.
func (t Token) MarshalJSON() ([]byte, error) { return keyspace.MarshalToken(int64(t)), nil }

// UnmarshalJSON reads a decimal string or a plain number.
func (t *Token) UnmarshalJSON(b []byte) error {
	return keyspace.UnmarshalToken(b, (*int64)(t))
}

// repeats tells whether b says nothing that a did not say, apart from when.
func (a Attempt) repeats(b Attempt) bool {
	switch b.Outcome {
	case OutcomeSnoozed, OutcomeReleased:
		return a.Outcome == b.Outcome && a.Owner == b.Owner && a.Error == b.Error && a.Actor == b.Actor && a.Reason == b.Reason
	}
	return false
}

// LogLimit is how many entries of the audit trail a record keeps.
const LogLimit = 20

// Log appends to the audit trail. An entry that only repeats the one before is
// collapsed into it.
func (r *Record) Log(a Attempt) {
	a.Error = Shorten(a.Error, MaxError)
	r.LogTotal = oneMore(r.LogTotal)
	r.Attempts = slices.Clone(r.Attempts)
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].repeats(a) {
		a.Repeated = oneMore(r.Attempts[n-1].Repeated)
		r.Attempts[n-1] = a
		return
	}
	r.Attempts = append(r.Attempts, a)
	if extra := len(r.Attempts) - LogLimit; extra > 0 {
		r.Attempts = r.Attempts[extra:]
	}
}

// Shorten makes s valid UTF-8, which JSON needs, and shortens it to at most n bytes, at
// a rune boundary, keeping the end: the last lines of an error say most.
func Shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	const mark = "..."
	return mark + strings.ToValidUTF8(s[len(s)-n+len(mark):], "")
}

// Stamp is now as records keep it: UTC, to the millisecond.
func Stamp(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }
