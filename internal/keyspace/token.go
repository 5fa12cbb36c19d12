package keyspace

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/leasekit/leasekit/internal/fault"
)

// MarshalToken writes a fencing token as a decimal string: revisions can exceed 2^53,
// beyond which JSON's numbers are not kept everywhere.
func MarshalToken(token int64) []byte {
	return []byte(`"` + strconv.FormatInt(token, 10) + `"`)
}

// UnmarshalToken reads a decimal string or a plain number; null changes nothing. The
// error wraps [fault.ErrInvalid].
func UnmarshalToken(b []byte, token *int64) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		s = string(b)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("read token %q: %w", s, fault.ErrInvalid)
	}
	*token = n
	return nil
}
