package job

import (
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Refusal is the value of refused/<id>, the evidence of the last late write for a job that
// was refused.
type Refusal struct {
	Nonce   string    `json:"w"`
	Verb    string    `json:"verb"`
	Token   Token     `json:"token"`
	Owner   string    `json:"owner"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Size    int       `json:"size"` // of the result, in bytes
	SHA256  string    `json:"sha256,omitempty"`
}

// RefusalIn reads one refusal. What cannot be read is no evidence.
func RefusalIn(keys keyspace.Keyspace, kv *mvccpb.KeyValue) (id string, r Refusal, ok bool) {
	p, ok := keys.Parse(string(kv.Key))
	return p.ID, r, ok && json.Unmarshal(kv.Value, &r) == nil
}
