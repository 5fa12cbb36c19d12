package workqueue

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
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
	what := fmt.Sprintf("take up job %s of %s", id, q.name)
	if err := keyspace.ValidateName("id", id); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if token <= 0 {
		return nil, fmt.Errorf("%s: %w", what, &coord.InputError{Field: "token", Value: token.String(), Reason: "it is a positive number, as the claim gave it"})
	}
	l, resp, err := q.find(ctx, id, clientv3.OpGet(q.keys.Payload(id)), clientv3.OpGet(q.keys.Progress(id)), clientv3.OpGet(q.keys.Config()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	q.learn(resp.Responses[5].GetResponseRange().Kvs)
	if l.record == nil {
		return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	if !l.provenBy(token, nonce) {
		return q.newClaim(nil, l.late(token, nonce)), nil
	}
	c := q.newClaim(nil, l)
	if kv := only(resp, 3); kv != nil && l.record.Beside > 0 {
		c.job.Payload = kv.Value
	}
	c.notes.load(only(resp, 4), c.job)
	return c, nil
}

// provenBy tells whether what was found is the claim of that token.
func (l snapshot) provenBy(token coord.Token, nonce string) bool {
	return l.record != nil && l.where == inJobs && l.record.claimed() && coord.Token(l.rev) == token && /*mutant:takeup-nonce*/ (nonce == "" || nonce == l.record.Nonce)
}

// late is what the owner of a token that is not current would believe to hold. Its
// fence can never hold, since nothing has its nonce: it is there to be refused.
func (l snapshot) late(token coord.Token, nonce string) snapshot {
	r := *l.record
	if nonce == "" {
		nonce = keyspace.NewNonce() //mutant:takeup-late
	}
	r.Nonce, r.Owner, r.OwnerRev, r.Assigned = nonce, "unknown", 1, false
	for _, a := range r.Attempts {
		if a.Token == token {
			r.Owner, r.Attempt = a.Owner, a.Attempt
		}
	}
	return snapshot{record: &r, where: inJobs, rev: int64(token)}
}

// only returns the one key that the i-th get of a read found, or nil.
func only(resp *clientv3.TxnResponse, i int) *mvccpb.KeyValue {
	if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
		return kvs[0]
	}
	return nil
}

// committer is what the claim's writes travel with: its session's, or the queue's
// for a claim that was taken up.
func (c *Claim) committer() *lane.Committer {
	if c.session == nil {
		return c.q.committer
	}
	return inside.Of(c.session).Committer()
}
