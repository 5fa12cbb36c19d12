package workqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Refusal is the evidence of the last late write for a job that was refused.
type Refusal struct {
	// Nonce is the record's head.
	Nonce string `json:"w"`
	// Verb is what the late owner wanted, such as "complete".
	Verb string `json:"verb"`
	// Token is the one that was no longer current.
	Token coord.Token `json:"token"`
	// Owner is the session that came late.
	Owner string `json:"owner"`
	// Attempt is the ordinal of the late attempt.
	Attempt int `json:"attempt"`
	// At is when, by the late owner's clock.
	At time.Time `json:"at"`
	// Size is that of the result that was refused, in bytes.
	Size int `json:"size"`
	// SHA256 is the hash of that result, in hex; empty without a result.
	SHA256 string `json:"sha256,omitempty"`
}

// keepRefusal writes the evidence beside the job, best effort: never on the job's
// key, since that would fence the live owner.
func (q *Queue) keepRefusal(ctx context.Context, c *Claim, e job.Event) {
	ev := Refusal{
		Nonce: keyspace.NewNonce(), Verb: string(e.Verb), Token: c.fence.Token, Owner: c.at.Record.Owner,
		Attempt: c.job.Attempt, At: job.Stamp(e.Now), Size: len(e.Result),
	}
	if len(e.Result) > 0 {
		sum := sha256.Sum256(e.Result)
		ev.SHA256 = hex.EncodeToString(sum[:])
	}
	value, err := json.Marshal(ev)
	if err == nil {
		var lease clientv3.LeaseID
		if lease, err = q.core.Retention.Lease(ctx, len(value)); err == nil {
			_, err = q.core.Committer.Do(ctx, q.core.Txns.Refused(c.job.ID, string(value), lease))
		}
	}
	if err != nil {
		q.core.Log.Info("keep evidence of a refused write", zap.String("job", c.job.ID), zap.Error(err))
	}
}
