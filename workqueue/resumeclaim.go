package workqueue

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/queue"
)

// ResumeClaim returns the claim that a token proves, to go on with a job that another
// process claimed, such as an earlier command of the same script. It reads the job
// and blocks until then or until ctx ends. A token that is not the current one
// gives a claim all the same: what is tried with it is refused by etcd, with
// [coord.ErrFenced], and leaves its evidence as any late write does.
//
// nonce is the head nonce of the claim, [coord.Fence].Nonce. Without it ("") a
// restore from a backup is not covered: then revisions go back, and the same token
// can come again for another owner.
//
// The claim's Context does not end when the owner's session does: whoever calls has
// to keep that session alive. Errors: [ErrNotFound] when no job of that ID is left.
func (q *Queue) ResumeClaim(ctx context.Context, id string, token coord.Token, nonce string) (*Claim, error) {
	what := fmt.Sprintf("take up job %s of %s", id, q.core.Name())
	if err := keyspace.ValidateName("id", id); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if token <= 0 {
		return nil, fmt.Errorf("%s: %w", what, &coord.InputError{Field: "token", Value: token.String(), Reason: "it is a positive number, as the claim gave it"})
	}
	l, resp, err := q.core.Find(ctx, id, clientv3.OpGet(q.core.Keys().Payload(id)), clientv3.OpGet(q.core.Keys().Progress(id)), clientv3.OpGet(q.core.Keys().Config()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	q.core.Mirrors.Learn(resp.Responses[5].GetResponseRange().Kvs)
	if l.Record == nil {
		return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	if !l.ProvenBy(int64(token), nonce) {
		return q.newClaim(nil, l.Late(int64(token), nonce)), nil
	}
	c := q.newClaim(nil, l)
	if kv := queue.Only(resp, 3); kv != nil && l.Record.Beside > 0 {
		c.job.Payload = kv.Value
	}
	c.notes.load(queue.Only(resp, 4), c.job)
	return c, nil
}

// committer is what the claim's writes travel with: its session's, or the queue's
// for a claim that was taken up.
func (c *Claim) committer() *lane.Committer {
	if c.session == nil {
		return c.q.core.Committer
	}
	return inside.Of(c.session).Committer()
}
