package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/workqueue"
)

// Refusal is the evidence of the last late write for a job that was refused.
type Refusal struct {
	// Verb is what the late owner wanted, such as "complete".
	Verb string
	// Token is the one that was no longer current.
	Token coord.Token
	// Owner is the session that came late.
	Owner string
	// Attempt is the ordinal of the late attempt.
	Attempt int
	// At is when, by the late owner's clock.
	At time.Time
	// Size is that of the result that was refused, in bytes.
	Size int
	// SHA256 is the hash of that result, in hex; empty without a result.
	SHA256 string
}

// refusalOf makes the public evidence.
func refusalOf(r job.Refusal) Refusal {
	return Refusal{Verb: r.Verb, Token: coord.Token(r.Token), Owner: r.Owner, Attempt: r.Attempt, At: r.At, Size: r.Size, SHA256: r.SHA256}
}

// Refusals returns the evidence of refused late writes, by job ID, as far as it is
// retained: the last one of each job.
func Refusals(ctx context.Context, q *workqueue.Queue) (map[string]Refusal, error) {
	resp, err := coreOf(q).Store.List(ctx, coreOf(q).Keys().RefusedWrites())
	if err != nil {
		return nil, fmt.Errorf("list refused writes of %s: %w", coreOf(q).Name(), err)
	}
	found := map[string]Refusal{}
	for _, kv := range resp.Kvs {
		if id, r, ok := job.RefusalIn(coreOf(q).Store.Keys(), kv); ok {
			found[id] = refusalOf(r)
		}
	}
	return found, nil
}

// Undecodable returns the keys of live records that cannot be read, with why, as
// the mirror shows them. They block nothing but themselves.
func Undecodable(ctx context.Context, q *workqueue.Queue) (map[string]error, error) {
	if err := coreOf(q).Mirrors.Sync(ctx); err != nil {
		return nil, err
	}
	return coreOf(q).Index.Unreadable(), nil
}
