package workqueue

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// The caps on what users hand in. Those of the record itself are with it.
const (
	defaultMaxPayload = 256 << 10
	// MaxResult bounds a result: 256 KiB.
	MaxResult = job.MaxResult
	// maxProgress bounds a progress report and a checkpoint each.
	maxProgress  = 64 << 10
	hardPayload  = 900 << 10
	maxLabels    = 32
	maxLabelText = 256
	maxReason    = 256
)

func checkSize(field string, n, limit int) error {
	if n <= limit { //mutant:payload-size
		return nil
	}
	return &coord.InputError{Field: field, Value: strconv.Itoa(n) + " bytes",
		Reason: fmt.Sprintf("at most %d bytes are accepted; keep large data elsewhere and pass a reference", limit)}
}

// validate checks what a caller wants to enqueue.
func (p Params) validate(maxPayload int) error {
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
	if err := checkSize("payload", len(p.Payload), maxPayload); err != nil {
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
		if c.n < 0 || int64(c.n) > job.MaxCount {
			return &coord.InputError{Field: c.field, Value: strconv.Itoa(c.n), Reason: "it must not be negative, nor above 2^53; 0 means the default"}
		}
	}
	if p.Timeout < 0 || p.Timeout > job.MaxTimeout {
		return &coord.InputError{Field: "timeout", Value: p.Timeout.String(), Reason: "it must be between 0, which means the worker's, and 100 years"}
	}
	if y := p.RunAt.UTC().Year(); !p.RunAt.IsZero() && (y < 1970 || y > 9999) {
		return &coord.InputError{Field: "run at", Value: p.RunAt.Format(time.RFC3339), Reason: "it must lie between the years 1970 and 9999"}
	}
	if p.Dedup != untilFinished && p.Dedup != UntilRetained {
		return &coord.InputError{Field: "dedup", Value: strconv.Itoa(int(p.Dedup)), Reason: "it is 0 or UntilRetained"}
	}
	return nil
}

// checkText refuses text that JSON, or the environment of a command, could not give
// back as it is.
func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return &coord.InputError{Field: field, Value: s, Reason: fmt.Sprintf("it has %d bytes, at most %d are accepted", len(s), limit)}
	case !utf8.ValidString(s):
		return &coord.InputError{Field: field, Value: s, Reason: "it is not valid UTF-8"}
	case strings.Contains(s, "\x00"):
		return &coord.InputError{Field: field, Value: s, Reason: "it has a NUL byte, which no environment variable can carry"}
	}
	return nil
}

func checkLabels(field string, labels map[string]string) error {
	if len(labels) > maxLabels {
		return &coord.InputError{Field: field, Value: strconv.Itoa(len(labels)), Reason: fmt.Sprintf("at most %d are accepted", maxLabels)}
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
