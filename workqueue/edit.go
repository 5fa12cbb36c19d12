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
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/usercode"
)

// edition is how a job is described after an edit.
type edition struct {
	Params
	repacked bool // the payload is another one
}

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
	return q.retold(ctx, verbEdit, id, by, func(l snapshot, beside besides) (*Job, error) {
		now := time.Now()
		e, err := q.edition(l.record, beside.payload, change)
		if err != nil {
			return nil, err
		}
		n, err := q.intervention(l, event{verb: verbEdit, now: now, by: by, edit: e})
		if err != nil {
			return nil, err
		}
		txn, err := q.txns.edit(l, n, e)
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
		job := n.record.view(q.name, n.where, r.Revision, now, nobody)
		job.Payload, job.PayloadSize = bytes.Clone(e.Payload), len(e.Payload)
		return job, nil
	})
}

// besides are what lies beside a record, read at its revision.
type besides struct {
	payload     []byte
	progress    []byte
	progressRev int64 // 0: there is none
}

// findBeside is find with what lies beside the record, as of a revision; 0 is now.
func (q *Queue) findBeside(ctx context.Context, id string, rev int64) (l snapshot, b besides, err error) {
	asOf := clientv3.WithRev(rev)
	l, resp, err := q.findAt(ctx, rev, id, clientv3.OpGet(q.keys.Payload(id), asOf), clientv3.OpGet(q.keys.Progress(id), asOf))
	if err != nil || l.record == nil {
		return l, b, err
	}
	b.payload = l.record.payload()
	if kv := only(resp, 3); kv != nil && l.record.Beside > 0 {
		b.payload = kv.Value
	}
	if kv := only(resp, 4); kv != nil {
		b.progress, b.progressRev = kv.Value, kv.ModRevision
	}
	return l, b, nil
}

// retold tries an intervention that needs what lies beside the record, again when the
// job moved meanwhile, which try tells by errMissed.
func (q *Queue) retold(ctx context.Context, v verb, id string, by By, try func(snapshot, besides) (*Job, error)) (*Job, error) {
	what := fmt.Sprintf("%s: job %s of %s", v, id, q.name)
	if err := errors.Join(by.validate(), keyspace.ValidateName("id", id)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for range maxTries {
		l, b, err := q.findBeside(ctx, id, 0)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", what, err)
		case l.record == nil:
			return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
		case by.Revision != 0 && by.Revision != l.rev:
			return nil, conflict(what, fmt.Errorf("it is at revision %d, not %d", l.rev, by.Revision))
		}
		if l.where != inDone && len(b.payload) < l.record.Beside {
			return nil, fmt.Errorf("%s: %w: its payload of %d bytes is gone", what, ErrNotApplicable, l.record.Beside)
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
func (q *Queue) intervention(l snapshot, e event) (next, error) {
	e.nonce, e.token = keyspace.NewNonce(), coord.Token(l.rev)
	n, err := transition(l.record, l.where, e)
	if err != nil {
		err = fmt.Errorf("%w: it is %s", ErrNotApplicable, l.record.state(l.where, e.now, func(string, int64) bool { return true }))
		if l.where == inJobs && l.record.claimed() && l.record.AtMostOnce {
			err = fmt.Errorf("%w, and may be started at most once", err)
		}
	}
	return n, err
}

// edition asks how the job is to be described, and checks it.
func (q *Queue) edition(r *record, payload []byte, change func(*Params) error) (*edition, error) {
	was := r.params(payload)
	p := r.params(payload)
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
	return &edition{Params: p, repacked: !bytes.Equal(p.Payload, payload)}, nil
}

// params is the description that the record was made of.
func (r *record) params(payload []byte) Params {
	return Params{
		ID: r.ID, Kind: r.Kind, Payload: bytes.Clone(payload), Priority: r.Priority, RunAt: r.RunAt,
		Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, MaxAttempts: r.MaxAttempts, MaxLosses: r.MaxLosses,
		AtMostOnce: r.AtMostOnce, Labels: maps.Clone(r.Labels), Trace: maps.Clone(r.Trace),
	}
}

// freeFor tells whether somebody may take a live job as it is: nobody's, or one that
// can be taken from its owner. One that may be started at most once was started.
func (r *record) freeFor(by By) bool {
	return !r.claimed() || by.BreakClaim && /*mutant:edit-at-most-once*/ !r.AtMostOnce //mutant:edit-claim
}

// describe takes up what the edit says.
func (r *record) describe(e event) next {
	r.intervened(e, outcomeEdited)
	p := e.edit
	r.Kind, r.Labels, r.Priority, r.MaxAttempts, r.MaxLosses = p.Kind, maps.Clone(p.Labels), p.Priority, p.MaxAttempts, p.MaxLosses
	r.TimeoutMS = inMilliseconds(p.Timeout)
	if p.repacked {
		r.pack(p.Payload)
	}
	if p.RunAt.After(e.now) {
		return r.reopen(p.RunAt)
	}
	return r.reopen(time.Time{})
}

// intervened ends the claim, if there is one, and writes who did what into the trail.
func (r *record) intervened(e event, o string) {
	if r.claimed() {
		r.endAttempt(e, o, "")
		return
	}
	r.log(Attempt{EndedAt: stamp(e.now), Outcome: o, Actor: e.by.Actor, Reason: e.by.Reason})
}

// edit writes the record that describes the job anew, as any intervention, and a
// payload that goes, or went, beside it. The guard is all that the payload needs: it is
// never written without its record.
func (t txns) edit(l snapshot, n next, e *edition) (etcdkv.Txn, error) {
	txn, err := t.intervene(l, n, clientv3.NoLease)
	if err != nil || !e.repacked {
		return txn, err
	}
	switch key := t.keys.Payload(l.record.ID); {
	case n.record.Beside > 0:
		txn.Then = append(txn.Then, clientv3.OpPut(key, string(e.Payload)))
	case l.record.Beside > 0:
		txn.Then = append(txn.Then, clientv3.OpDelete(key))
	}
	return txn, nil
}
