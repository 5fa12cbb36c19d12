package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
	"github.com/leasekit/leasekit/internal/queue"
)

// ImportBatch puts jobs back that [Queue.Export] wrote, whatever queue they came
// from: each where it was, with its whole trail, live ones in the order of the
// lines. A job that was claimed comes as open, since its owner is not here, or as dead
// where it may be started only once; by says in its trail who did it. A done job is
// retained as long as one that is done now.
//
// It blocks until every outcome is known or ctx ends. errs[i] is nil when line i was
// put. [*ExistsError] means that its ID is in use, where Job tells by what: a job of
// the same IdempotencyKey is the very job, imported before. With replace, other jobs
// make way, unless they are claimed. [coord.ErrUnknown]: ctx ended first.
func (q *Queue) ImportBatch(ctx context.Context, lines [][]byte, replace bool, by By) (errs []error) {
	errs = make([]error, len(lines))
	for done := 0; done < len(lines); {
		n := inOneFlight(lines[done:])
		q.importTogether(ctx, lines[done:done+n], errs[done:done+n], replace, by)
		done += n
	}
	return errs
}

// inOneFlight is how many of the lines surely travel in one Txn. Those of the next
// wait for it, since flights may pass one that is slow.
func inOneFlight(lines [][]byte) int {
	const most, mostBytes = 40, 512 << 10
	bytes := 0
	for i, line := range lines {
		if bytes += len(line); i > 0 && (i == most || bytes > mostBytes) {
			return i
		}
	}
	return len(lines)
}

// importTogether puts some lines back, and notes what comes of each.
func (q *Queue) importTogether(ctx context.Context, lines [][]byte, errs []error, replace bool, by By) {
	under := make([]*importing, len(lines))
	for i, line := range lines {
		if under[i], errs[i] = q.beginImport(ctx, line, by); errs[i] != nil {
			errs[i] = fmt.Errorf("import to %s: %w", q.core.Name, errs[i])
		}
	}
	for i, im := range under {
		if im == nil {
			continue
		}
		if err := im.settle(ctx, replace); err != nil {
			errs[i] = fmt.Errorf("import job %s to %s: %w", im.record.ID, q.core.Name, err)
		}
	}
}

// importing is one import under way.
type importing struct {
	q       *Queue
	line    exported
	record  *job.Record
	where   job.Place
	note    string
	lease   clientv3.LeaseID
	pending *lane.Pending
}

func (q *Queue) beginImport(ctx context.Context, line []byte, by By) (*importing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(by.inner().Validate(), q.core.Backlog.Check(q.core)); err != nil {
		return nil, err
	}
	im := &importing{q: q}
	if err := im.read(line); err != nil {
		return nil, &coord.InputError{Field: "line", Value: fmt.Sprintf("%.60s", line), Reason: err.Error()}
	}
	if err := im.unclaim(by); err != nil {
		return nil, err
	}
	im.record.Seq = q.core.Seq.Add(1)
	return im, im.send(ctx, job.ImportSeen{})
}

// unclaim takes the owner out, who is not here: the job is open, or dead where it may
// be started only once.
func (im *importing) unclaim(by By) error {
	if !im.record.Claimed() {
		return nil
	}
	e := job.Event{Verb: job.VerbBreak, Now: time.Now(), Nonce: keyspace.NewNonce(), By: by.inner()} //mutant:import-at-most-once
	n, err := job.Transition(im.record, job.InJobs, e)
	if err != nil {
		return err
	}
	im.record, im.where = n.Record, n.Where
	return nil
}

// read takes a line apart and checks it.
func (im *importing) read(line []byte) error {
	if err := json.Unmarshal(line, &im.line); err != nil {
		return fmt.Errorf("it is no exported job: %w", err)
	}
	l := im.line
	known := false
	for where, name := range places {
		if name == l.Where {
			im.where, known = where, true
		}
	}
	switch {
	case l.Version > exportVersion:
		return fmt.Errorf("it has version %d, this program knows %d: use a newer one", l.Version, exportVersion)
	case l.Version < 1 || !known || len(l.Record) < 2 || l.Record[0] != '{':
		return errors.New("it is no exported job")
	}
	value := append([]byte(`{"w":"`+keyspace.NewNonce()+`",`), l.Record[1:]...)
	var err error
	if im.record, err = job.Decode(value); err != nil {
		return err
	}
	return im.check()
}

// check refuses what could never have been exported.
func (im *importing) check() error {
	r := im.record
	if err := keyspace.ValidateName("id", r.ID); err != nil {
		return err
	}
	switch {
	case r.Born == "":
		return errors.New("its record has no born")
	case r.Claimed() && im.where != job.InJobs:
		return errors.New("it is over and claimed at once")
	case im.where != job.InDone && r.Beside != len(im.line.Payload):
		return fmt.Errorf("its payload has %d bytes, its record says %d", len(im.line.Payload), r.Beside)
	case len(r.Attempts) > job.LogLimit:
		return fmt.Errorf("its trail has %d entries, at most %d are kept", len(r.Attempts), job.LogLimit)
	}
	if err := im.checkLimits(); err != nil {
		return err
	}
	if len(im.line.Progress) == 0 {
		return nil
	}
	var n job.Note
	if err := json.Unmarshal(im.line.Progress, &n); err != nil {
		return fmt.Errorf("its progress cannot be read: %w", err)
	}
	if err := errors.Join(job.CheckSize("progress", len(n.ProgressBytes()), job.MaxProgress), job.CheckSize("checkpoint", len(n.CheckpointBytes()), job.MaxProgress)); err != nil {
		return err
	}
	n.Nonce = keyspace.NewNonce()
	b, err := job.EncodeJSON(n)
	im.note = string(b)
	return err
}

// checkLimits refuses what no enqueue and no handler may leave.
func (im *importing) checkLimits() error {
	payload, limit := im.line.Payload, im.q.cfg.MaxPayload
	if im.record.Beside == 0 {
		payload = im.record.PayloadBytes()
	}
	if im.where == job.InDead {
		limit = max(limit, maxSalvage)
	}
	if err := paramsOf(im.record.Description(payload)).validate(limit); err != nil {
		return err
	}
	return job.CheckSize("result", len(im.record.ResultBytes()), MaxResult)
}

// send hands a try over.
func (im *importing) send(ctx context.Context, seen job.ImportSeen) (err error) {
	if im.where == job.InDone {
		if im.lease, err = im.q.core.Retention.Lease(ctx, im.record.Size()); err != nil {
			return err
		}
	}
	txn, err := im.q.core.Txns.Restore(im.restored(), seen)
	if err != nil {
		return err
	}
	im.pending = im.q.core.Committer.Go(txn)
	return nil
}

// restored is what the import writes.
func (im *importing) restored() job.Restored {
	return job.Restored{Record: im.record, Where: im.where, Payload: string(im.line.Payload), Progress: im.note, Lease: im.lease}
}

// settle waits for the outcome, and tries again over what makes way.
func (im *importing) settle(ctx context.Context, replace bool) error {
	for range queue.MaxTries {
		r, err := im.pending.Wait(ctx)
		var seen job.ImportSeen
		switch {
		case err == nil && r.Succeeded:
			return nil
		case err == nil:
			if seen, err = im.judge(ctx, r, replace); err != nil {
				return err
			}
		case im.lease != clientv3.NoLease && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
			im.q.core.Retention.Lost(im.lease)
		default:
			return err
		}
		im.record.Nonce = keyspace.NewNonce()
		if err := im.send(ctx, seen); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: others keep using the id", ErrConflict)
}

// judge looks at what is there under the ID, and tells what may make way.
func (im *importing) judge(ctx context.Context, r lane.Result, replace bool) (seen job.ImportSeen, err error) {
	for where := job.InJobs; where <= job.InDead; where++ {
		kv := r.Get(int(where))
		if kv == nil {
			continue
		}
		old, derr := im.q.core.Txns.Decode(where, kv)
		if derr != nil {
			return seen, fmt.Errorf("%w, but it cannot be read: %w", ErrExists, derr)
		}
		same := old.Born == im.record.Born
		if /*mutant:import-same*/ same || !replace || /*mutant:import-claimed*/ old.Claimed() {
			return seen, &ExistsError{Job: im.q.viewOf(ctx, old, where, kv)}
		}
		seen[where] = kv.ModRevision
	}
	return seen, nil
}

func (q *Queue) viewOf(ctx context.Context, r *job.Record, where job.Place, kv *mvccpb.KeyValue) *Job {
	return view(r, q.core.Name, where, kv.ModRevision, time.Now(), q.core.PresumedAlive(ctx))
}
