package history

import (
	"errors"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

// Judge turns an error of the libraries into what it says about the write. Why is set
// for refusals only. Whatever does not match [coord.ErrUnknown] promises that nothing
// was written.
func Judge(err error) (Result, Why) {
	if err == nil {
		return Applied, ""
	}
	if errors.Is(err, coord.ErrUnknown) {
		return Unknown, ""
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return Refused, r.why
		}
	}
	return NotApplied, ""
}

var refusals = []struct {
	err error
	why Why
}{
	{coord.ErrFenced, Fenced},
	{workqueue.ErrCancelled, Fenced}, // the cause of a claim that was taken away
	{workqueue.ErrExists, Exists},
	{workqueue.ErrNotFound, NotFound},
	{workqueue.ErrNotApplicable, NotApplicable},
	{workqueue.ErrConflict, Conflict},
}
