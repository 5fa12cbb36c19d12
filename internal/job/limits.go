package job

import (
	"fmt"
	"time"

	"github.com/leasekit/leasekit/internal/fault"
)

// The caps that keep every closing Txn within what etcd takes (1.5 MiB).
const (
	// MaxResult bounds a result, in bytes.
	MaxResult = 256 << 10
	// InlineLimit is the largest payload that lies in the record, in bytes.
	InlineLimit = 1 << 10
	// MaxError bounds the text of an error, in bytes.
	MaxError = 1 << 10
	// MaxTimeout bounds every duration, so that sums of them, and of times with them, are
	// far from overflowing. For people it is for ever.
	MaxTimeout = 100 * 365 * 24 * time.Hour
	// MaxPeriod bounds the pauses of what is done again and again.
	MaxPeriod = 24 * time.Hour
	// maxCount bounds every count: the largest that JSON keeps wherever it is read.
	maxCount = 1 << 53
)

// Span is a duration of a config and what it may be. Zero is never refused: it means
// the default.
type Span struct {
	Field       string
	D           time.Duration
	Least, Most time.Duration
	Zero        string // What 0 means
}

// CheckSpans refuses the first that is out of its bounds.
func CheckSpans(spans ...Span) error {
	for _, s := range spans {
		if s.D == 0 || s.D >= s.Least && s.D <= s.Most {
			continue
		}
		least, most := s.Least.String(), s.Most.String()
		switch s.Most {
		case MaxTimeout:
			most = "100 years"
		case MaxPeriod:
			most = "24h"
		}
		return &fault.InputError{Field: s.Field, Value: s.D.String(), Reason: fmt.Sprintf("it is between %s and %s; 0 means %s", least, most, s.Zero)}
	}
	return nil
}
