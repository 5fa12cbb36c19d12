package queue

import (
	"errors"
	"fmt"

	"github.com/leasekit/leasekit/internal/job"
)

// Why an attempt at a change came to nothing.
var (
	// ErrMissed means that nothing was changed and nothing is wrong: somebody else was
	// faster, or an orphan was put back or buried.
	ErrMissed   = errors.New("missed")
	ErrMoved    = errors.New("somebody else was faster")
	ErrChanging = errors.New("others keep changing it")
)

// Conflict wraps a refusal for somebody who guarded by a revision.
func Conflict(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, job.ErrConflict, err)
}
