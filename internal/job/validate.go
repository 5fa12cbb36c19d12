package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// The caps on what users hand in, in bytes where they say no other unit.
const (
	// MaxProgress bounds a progress report and a checkpoint each.
	MaxProgress  = 64 << 10
	maxLabels    = 32 // of them
	maxLabelText = 256
	maxReason    = 256
)

// CheckSize refuses what is larger than limit, in bytes.
func CheckSize(field string, n, limit int) error {
	if n <= limit { //mutant:payload-size
		return nil
	}
	return &fault.InputError{Field: field, Value: strconv.Itoa(n) + " bytes",
		Reason: fmt.Sprintf("at most %d bytes are accepted; keep large data elsewhere and pass a reference", limit)}
}

// Validate checks what a caller wants to enqueue.
func (p Description) Validate(maxPayload int) error {
	if p.ID != "" {
		if err := keyspace.ValidateName("id", p.ID); err != nil {
			return err
		}
	}
	if p.Kind != "" {
		if err := keyspace.ValidateName("kind", p.Kind); err != nil {
			return err
		}
	}
	if err := CheckSize("payload", len(p.Payload), maxPayload); err != nil {
		return err
	}
	if err := checkLabels("labels", p.Labels); err != nil {
		return err
	}
	if err := checkLabels("trace", p.Trace); err != nil {
		return err
	}
	for _, c := range []struct {
		field string
		n     int
	}{{"max attempts", p.MaxAttempts}, {"max losses", p.MaxLosses}} {
		if c.n < 0 || int64(c.n) > maxCount {
			return &fault.InputError{Field: c.field, Value: strconv.Itoa(c.n), Reason: "it must not be negative, nor above 2^53; 0 means the default"}
		}
	}
	if p.Timeout < 0 || p.Timeout > MaxTimeout {
		return &fault.InputError{Field: "timeout", Value: p.Timeout.String(), Reason: "it must be between 0, which means the worker's, and 100 years"}
	}
	if y := p.RunAt.UTC().Year(); !p.RunAt.IsZero() && (y < 1970 || y > 9999) {
		return &fault.InputError{Field: "run at", Value: p.RunAt.Format(time.RFC3339), Reason: "it must lie between the years 1970 and 9999"}
	}
	return nil
}

// checkText refuses text that JSON, or the environment of a command, could not give
// back as it is.
func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return &fault.InputError{Field: field, Value: s, Reason: fmt.Sprintf("it has %d bytes, at most %d are accepted", len(s), limit)}
	case !utf8.ValidString(s):
		return &fault.InputError{Field: field, Value: s, Reason: "it is not valid UTF-8"}
	case strings.Contains(s, "\x00"):
		return &fault.InputError{Field: field, Value: s, Reason: "it has a NUL byte, which no environment variable can carry"}
	}
	return nil
}

func checkLabels(field string, labels map[string]string) error {
	if len(labels) > maxLabels {
		return &fault.InputError{Field: field, Value: strconv.Itoa(len(labels)), Reason: fmt.Sprintf("at most %d are accepted", maxLabels)}
	}
	for k, v := range labels {
		if err := keyspace.ValidateName(field, k); err != nil {
			return err
		}
		if err := checkText(field+"."+k, v, maxLabelText); err != nil {
			return err
		}
	}
	return nil
}

// Validate refuses what the trail could not keep.
func (b By) Validate() error {
	if err := checkText("actor", b.Actor, maxReason); err != nil {
		return err
	}
	return checkText("reason", b.Reason, maxReason)
}
