package workqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// keepRefusal writes the evidence beside the job, best effort: never on the job's
// key, since that would fence the live owner.
func (q *Queue) keepRefusal(ctx context.Context, c *Claim, e job.Event) {
	ev := job.Refusal{
		Nonce: keyspace.NewNonce(), Verb: string(e.Verb), Token: job.Token(c.fence.Token), Owner: c.at.Record.Owner,
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
