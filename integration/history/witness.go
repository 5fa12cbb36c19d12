package history

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one change of one key.
type Event struct {
	// Rev is the revision, shared by all changes of one Txn.
	Rev int64
	// Key is the key, Value its new value; a deletion has none.
	Key    string
	Delete bool
	Value  []byte
	// CreateRev is the revision that created the key, Lease the lease it hangs on; 0
	// for deletions.
	CreateRev int64
	Lease     int64
	// Seen is when the witness saw it, a reading of [Now]: never before it happened.
	Seen int64
}

// WitnessConfig says what to watch.
type WitnessConfig struct {
	// Root is the root of the queues, with its final slash.
	Root string
	// Also are further prefixes, such as that of the callers' own writes. With any,
	// the whole of etcd is watched and filtered.
	Also []string
	// From is the first revision; 0 means 1, the beginning of all.
	From int64
}

// Witness is one watch over everything, and so has the exact history. It reconnects
// and goes on at the next revision. It never skips: when revisions that it has not
// seen are compacted, it fails. Safe for concurrent use.
type Witness struct{}

// StartWitness begins to watch. The client should reach every member, past all
// proxies. It does not block. Close it.
func StartWitness(ctx context.Context, cl *clientv3.Client, cfg WitnessConfig) (*Witness, error) {
	panic("not yet")
}

// Seen is the revision up to which everything was seen.
func (w *Witness) Seen() int64 { panic("not yet") }

// Compactable is the highest revision that may be compacted without a hole in the
// history: whoever compacts during a run keeps to it. It is 0 while there is none.
func (w *Witness) Compactable() int64 { panic("not yet") }

// WaitSeen blocks until everything up to a revision was seen, or the witness failed,
// or ctx ended.
func (w *Witness) WaitSeen(ctx context.Context, rev int64) error { panic("not yet") }

// Err is why the history is not whole, or why a guarantee of watches was broken; nil
// while all is well.
func (w *Witness) Err() error { panic("not yet") }

// Events returns what was seen so far, in order.
func (w *Witness) Events() []Event { panic("not yet") }

// Close ends the watch, joins its goroutine and returns Err. It may be called again.
func (w *Witness) Close() error { panic("not yet") }

// KV is one key of the final state.
type KV struct {
	Value             []byte
	ModRev, CreateRev int64
	Lease             int64
}

// Final is everything under a root at one revision.
type Final struct {
	Revision int64
	KVs      map[string]KV
}

// ReadFinal reads everything under the prefixes, at one revision, with linearizable
// reads.
func ReadFinal(ctx context.Context, cl *clientv3.Client, prefixes ...string) (*Final, error) {
	panic("not yet")
}
