package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// DecodeConfig reads a config and keeps the fields that it does not know.
func DecodeConfig(value []byte) (QueueConfig, error) {
	c := QueueConfig{}
	if err := json.Unmarshal(value, &c); err != nil {
		return QueueConfig{}, err
	}
	if err := json.Unmarshal(value, &c.extra); err != nil {
		return QueueConfig{}, err
	}
	maps.DeleteFunc(c.extra, func(name string, _ json.RawMessage) bool { return isOneOf(name, configFields) })
	return c, nil
}

// configFields are the JSON names of config's fields.
var configFields = fieldNames[QueueConfig]()

// ConfigIn reads what a get of the config found, which may be nothing.
func ConfigIn(kvs []*mvccpb.KeyValue) (c QueueConfig, rev int64, err error) {
	if len(kvs) == 0 {
		return QueueConfig{}, 0, nil
	}
	if c, err = DecodeConfig(kvs[0].Value); err != nil {
		return QueueConfig{}, 0, fmt.Errorf("%w: the config: %w", ErrUndecodable, err)
	}
	return c, kvs[0].ModRevision, nil
}

// Configure writes the config. The compare closes the race with another change,
// which a blind put would undo.
func (t Txns) Configure(c QueueConfig, rev int64) (etcdkv.Txn, error) {
	c.Nonce = keyspace.NewNonce()
	value, err := EncodeJSON(c)
	if err != nil {
		return etcdkv.Txn{}, fmt.Errorf("encode config: %w", err)
	}
	value, err = withExtra(value, c.extra)
	if err != nil {
		return etcdkv.Txn{}, err
	}
	key := t.Keys.Config()
	return etcdkv.Txn{
		Origin: "repair",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev)}, //mutant:config-guard
		Then:   []clientv3.Op{clientv3.OpPut(key, string(value))},
		Else:   []clientv3.Op{clientv3.OpGet(key)},
	}, nil
}

// The modes of a queue: each worker claims for itself, or a dispatcher hands its jobs out.
// In a config "" is claim.
const (
	ModeClaim    = "claim"
	ModeDispatch = "dispatch"
)

// QueueConfig is the value of queues/<q>/config.
type QueueConfig struct {
	Nonce  string `json:"w"`
	Paused bool   `json:"paused,omitempty"`
	Mode   string `json:"mode,omitempty"` // empty: claim
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is when Actor paused or resumed the queue.
	At time.Time `json:"at,omitzero"`

	// The settings, each as it was read: see settingFields.
	Retention   json.RawMessage `json:"retention,omitempty"`
	RetainJobs  json.RawMessage `json:"retain_jobs,omitempty"`
	RetainBytes json.RawMessage `json:"retain_bytes,omitempty"`
	Backoff     json.RawMessage `json:"backoff,omitempty"`
	// SetBy changed the mode or the settings last, at SetAt.
	SetBy     string    `json:"set_by,omitempty"`
	SetReason string    `json:"set_reason,omitempty"`
	SetAt     time.Time `json:"set_at,omitzero"`

	extra map[string]json.RawMessage
}

// SalvagedConfig keeps the mode, the settings, and the fields that a newer program may
// know.
func SalvagedConfig(value []byte) (c QueueConfig) {
	if json.Unmarshal(value, &c.extra) != nil {
		return QueueConfig{}
	}
	var mode string
	if json.Unmarshal(c.extra["mode"], &mode) == nil && mode == ModeDispatch {
		c.Mode = mode
	}
	for _, f := range settingFields {
		*f.raw(&c) = c.extra[f.name]
	}
	maps.DeleteFunc(c.extra, func(name string, _ json.RawMessage) bool { return isOneOf(name, configFields) })
	return c
}

// Disband deletes the config of a queue in which there is nothing, and the tombstones of
// workers that have left it, the last of them at revision left. The range compares
// close the races with whoever enqueues a job meanwhile, ends one, or begins to serve
// the queue; the first one keeps a pause, or a mode, that was not seen.
func (t Txns) Disband(config, left int64) etcdkv.Txn {
	key := t.Keys.Config()
	txn := etcdkv.Txn{
		Origin: "repair",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", config)},
		Then:   []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(t.Keys.Workers(), clientv3.WithPrefix())},
		Else:   []clientv3.Op{clientv3.OpGet(key)},
	}
	for _, prefix := range []string{t.Keys.Jobs(), t.Keys.DoneJobs(), t.Keys.DeadJobs()} {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(prefix), "=", 0).WithPrefix()) //mutant:remove-empty
	}
	txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(t.Keys.Workers()), "<", left+1).WithPrefix()) //mutant:remove-left
	return txn
}
