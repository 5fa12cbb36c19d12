package keyspace

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/fault"
)

// Schema is the version of the key layout that this code reads and writes.
const Schema = 1

// CheckMeta tells whether this program knows the schema that the value of
// [Keyspace.Meta] names; meta is what a get of it found, which may be nothing. The
// error wraps ErrInvalid when a newer program has written the keys.
func CheckMeta(meta []*mvccpb.KeyValue) error {
	var m struct {
		Schema int `json:"schema"`
	}
	if len(meta) == 0 {
		return nil // deleted by hand; the next session writes it again
	}
	if err := json.Unmarshal(meta[0].Value, &m); err != nil {
		return fmt.Errorf("read meta: %w", err)
	}
	if m.Schema > Schema {
		return fmt.Errorf("the keys under this root have schema %d, this program knows %d: use a newer one: %w", m.Schema, Schema, fault.ErrInvalid)
	}
	return nil
}
