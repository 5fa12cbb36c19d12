package job

import (
	"bytes"
	"maps"

	"github.com/leasekit/leasekit/internal/fault"
)

// Edit asks change how a job is to be described, and checks it; maxPayload is in bytes.
func Edit(r *Record, payload []byte, maxPayload int, change func(*Description) error) (*Edition, error) {
	was, d := r.Description(payload), r.Description(payload)
	if err := change(&d); err != nil {
		return nil, err
	}
	for field, same := range map[string]bool{
		"id": d.ID == was.ID, "at most once": d.AtMostOnce == was.AtMostOnce, "trace": maps.Equal(d.Trace, was.Trace),
	} {
		if !same {
			return nil, &fault.InputError{Field: field, Value: r.ID, Reason: "an edit cannot change it"}
		}
	}
	// What somebody else's limit let in may stay.
	if err := d.Validate(max(maxPayload, len(payload))); err != nil {
		return nil, err
	}
	return &Edition{Description: d, Repacked: !bytes.Equal(d.Payload, payload)}, nil
}
