package workqueue

import (
	"strconv"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
)

// MaxResult bounds a result: 256 KiB.
const MaxResult = job.MaxResult

const (
	defaultMaxPayload = 256 << 10
	hardPayload       = 900 << 10
)

// validate checks what a caller wants to enqueue.
func (p Params) validate(maxPayload int) error {
	if err := p.description().Validate(maxPayload); err != nil {
		return err
	}
	if p.Dedup != untilFinished && p.Dedup != UntilRetained {
		return &coord.InputError{Field: "dedup", Value: strconv.Itoa(int(p.Dedup)), Reason: "it is 0 or UntilRetained"}
	}
	return nil
}
