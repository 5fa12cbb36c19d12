package job

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// ProvenBy tells whether what was found is the claim that revision rev made.
func (l Snapshot) ProvenBy(rev int64, nonce string) bool {
	return l.Record != nil && l.Where == InJobs && l.Record.Claimed() && l.Rev == rev && /*mutant:takeup-nonce*/ (nonce == "" || nonce == l.Record.Nonce)
}

// Late is what the owner of a token that is not current would believe to hold. Its
// fence can never hold, since nothing has its nonce: it is there to be refused.
func (l Snapshot) Late(rev int64, nonce string) Snapshot {
	r := *l.Record
	if nonce == "" {
		nonce = keyspace.NewNonce() //mutant:takeup-late
	}
	r.Nonce, r.Owner, r.OwnerRev, r.Assigned = nonce, "unknown", 1, false
	for _, a := range r.Attempts {
		if a.Token == Token(rev) {
			r.Owner, r.Attempt = a.Owner, a.Attempt
		}
	}
	return Snapshot{Record: &r, Where: InJobs, Rev: rev}
}

// TokenOf is the revision of what was found, if it was found there.
func (l Snapshot) TokenOf(where Place) int64 {
	if l.Record == nil || l.Where != where {
		return 0
	}
	return l.Rev
}

// Snapshot is a record as it was read: the guard of every transition is its mod
// revision and head nonce.
type Snapshot struct {
	Record *Record
	Where  Place
	Rev    int64
	// Created is the revision that put the key there, where that was asked for.
	Created int64
	// HasProgress tells that a progress key may exist, so that it is not forgotten.
	HasProgress bool
}

// IsFrom tells whether kv is what was read. The revision alone does not: after a restore
// from a backup, numbers come again, for other values.
func (l Snapshot) IsFrom(kv *mvccpb.KeyValue) bool {
	return kv != nil && kv.ModRevision == l.Rev && keyspace.NonceOf(kv.Value) == l.Record.Nonce
}
