package workqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/usercode"
)

// Edit describes a waiting job anew: change gets its description as it is, and may
// change the payload, the kind, the labels, the priority, the time before which it is
// not claimed, the timeout and the limits of attempts and losses. What a change of the
// other fields would mean is not defined, so it is refused. The job keeps its place,
// its counters and its idempotency key. A claimed job is refused, unless By.BreakClaim
// takes it from its owner, who is fenced.
//
// change may be called again when the job moves meanwhile, unless By.Revision is set;
// an error or a panic of it ends the edit and is wrapped. It returns the job as it is then;
// [ErrNotFound]; [ErrNotApplicable] when the job is claimed or over; [ErrConflict] when
// By.Revision is not current; a [coord.InputError] for what no job can be.
func (q *Queue) Edit(ctx context.Context, id string, change func(*Params) error, by By) (*Job, error) {
	return q.retold(ctx, job.VerbEdit, id, by, func(l job.Snapshot, beside job.Beside) (*Job, error) {
		now := time.Now()
		e, err := q.edition(l.Record, beside.Payload, change)
		if err != nil {
			return nil, err
		}
		n, err := q.intervention(l, job.Event{Verb: job.VerbEdit, Now: now, By: by.inner(), Edit: e})
		if err != nil {
			return nil, err
		}
		txn, err := q.txns.Edit(l, n, e)
		if err != nil {
			return nil, err
		}
		r, err := q.committer.Do(ctx, txn)
		switch {
		case err != nil:
			return nil, err
		case !r.Succeeded:
			return nil, errMissed
		}
		job := view(n.Record, q.name, n.Where, r.Revision, now, nobody)
		job.Payload, job.PayloadSize = bytes.Clone(e.Payload), len(e.Payload)
		return job, nil
	})
}

// findBeside is find with what lies beside the record, as of a revision; 0 is now.
func (q *Queue) findBeside(ctx context.Context, id string, rev int64) (l job.Snapshot, b job.Beside, err error) {
	asOf := clientv3.WithRev(rev)
	l, resp, err := q.findAt(ctx, rev, id, clientv3.OpGet(q.keys.Payload(id), asOf), clientv3.OpGet(q.keys.Progress(id), asOf))
	if err != nil || l.Record == nil {
		return l, b, err
	}
	b.Payload = l.Record.PayloadBytes()
	if kv := only(resp, 3); kv != nil && l.Record.Beside > 0 {
		b.Payload = kv.Value
	}
	if kv := only(resp, 4); kv != nil {
		b.Progress, b.ProgressRev = kv.Value, kv.ModRevision
	}
	return l, b, nil
}

// retold tries an intervention that needs what lies beside the record, again when the
// job moved meanwhile, which try tells by errMissed.
func (q *Queue) retold(ctx context.Context, v job.Verb, id string, by By, try func(job.Snapshot, job.Beside) (*Job, error)) (*Job, error) {
	what := fmt.Sprintf("%s: job %s of %s", v, id, q.name)
	if err := errors.Join(by.validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for range maxTries {
		l, b, err := q.findBeside(ctx, id, 0)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case l.Record == nil:
			return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
		case by.Revision != 0 && by.Revision != l.Rev:
			return nil, conflict(what, fmt.Errorf("it is at revision %d, not %d", l.Rev, by.Revision))
		}
		if l.Where != job.InDone && len(b.Payload) < l.Record.Beside {
			return nil, fmt.Errorf("%s: %w: its payload of %d bytes is gone", what, ErrNotApplicable, l.Record.Beside)
		}
		job, err := try(l, b)
		switch {
		case errors.Is(err, errMissed) && by.Revision != 0:
			return nil, conflict(what, errMoved)
		case errors.Is(err, errMissed):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return job, nil
	}
	return nil, conflict(what, errChanging)
}

// intervention makes the next record, or tells in which state the job is that does not
// allow it.
func (q *Queue) intervention(l job.Snapshot, e job.Event) (job.Next, error) {
	e.Nonce, e.Token = keyspace.NewNonce(), job.Token(l.Rev)
	n, err := job.Transition(l.Record, l.Where, e)
	if err != nil {
		err = fmt.Errorf("%w: it is %s", ErrNotApplicable, l.Record.State(l.Where, e.Now, func(string, int64) bool { return true }))
		if l.Where == job.InJobs && l.Record.Claimed() && l.Record.AtMostOnce {
			err = fmt.Errorf("%w, and may be started at most once", err)
		}
	}
	return n, err
}

// edition asks how the job is to be described, and checks it.
func (q *Queue) edition(r *job.Record, payload []byte, change func(*Params) error) (*job.Edition, error) {
	was, p := paramsOf(r.Description(payload)), paramsOf(r.Description(payload))
	if err := usercode.Call(func() error { return change(&p) }); err != nil {
		return nil, err
	}
	for field, same := range map[string]bool{
		"id": p.ID == was.ID, "at most once": p.AtMostOnce == was.AtMostOnce, "dedup": p.Dedup == was.Dedup, "trace": maps.Equal(p.Trace, was.Trace),
	} {
		if !same {
			return nil, &coord.InputError{Field: field, Value: r.ID, Reason: "an edit cannot change it"}
		}
	}
	// What somebody else's limit let in may stay.
	if err := p.validate(max(q.cfg.MaxPayload, len(payload))); err != nil {
		return nil, err
	}
	return &job.Edition{Description: p.description(), Repacked: !bytes.Equal(p.Payload, payload)}, nil
}
