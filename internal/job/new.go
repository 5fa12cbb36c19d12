package job

import (
	"bytes"
	"crypto/rand"
	"maps"
	"time"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Description is what whoever enqueues says of a job: the public Params explain it.
type Description struct {
	ID, Kind               string
	Payload                []byte
	Priority               int
	RunAt                  time.Time
	Timeout                time.Duration
	MaxAttempts, MaxLosses int
	AtMostOnce             bool
	Labels, Trace          map[string]string
}

// Description is the one that the record was made of.
func (r *Record) Description(payload []byte) Description {
	return Description{
		ID: r.ID, Kind: r.Kind, Payload: bytes.Clone(payload), Priority: r.Priority, RunAt: r.RunAt,
		Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, MaxAttempts: r.MaxAttempts, MaxLosses: r.MaxLosses,
		AtMostOnce: r.AtMostOnce, Labels: maps.Clone(r.Labels), Trace: maps.Clone(r.Trace),
	}
}

// New makes the first record of a job.
func New(p Description, seq uint64, now time.Time) *Record {
	r := &Record{
		Nonce: keyspace.NewNonce(), ID: p.ID, Kind: p.Kind,
		Born:   keyspace.NewNonce(), //mutant:born-nonce
		Labels: p.Labels, Trace: p.Trace, Priority: p.Priority, Seq: seq,
		TimeoutMS: inMilliseconds(p.Timeout), MaxAttempts: p.MaxAttempts, MaxLosses: p.MaxLosses,
		AtMostOnce: p.AtMostOnce, EnqueuedAt: Stamp(now),
	}
	if r.ID == "" {
		r.ID = NewID(now)
	}
	if p.RunAt.After(now) {
		r.RunAt = Stamp(p.RunAt)
	}
	r.pack(p.Payload)
	r.Version = r.leastVersion()
	return r
}

// inMilliseconds rounds up: a timeout of less than one must not become none.
func inMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// NewID returns a ULID (github.com/ulid/spec): 48 bits of time and 80 random
// bits in Crockford's base 32, so that ids sort by age and can be read aloud.
func NewID(now time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var random [16]byte
	rand.Read(random[:])
	var id [26]byte
	ms := uint64(now.UnixMilli())
	for i := 9; i >= 0; i-- {
		id[i] = alphabet[ms&31]
		ms >>= 5
	}
	for i := range random {
		id[10+i] = alphabet[random[i]&31]
	}
	return string(id[:])
}

// Edition is how a job is described after an edit.
type Edition struct {
	Description
	Repacked bool // Payload is another one
}
