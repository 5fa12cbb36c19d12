package admin

import (
	"context"
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
	"github.com/leasekit/leasekit/workqueue"
)

// Import puts jobs back that [Export] wrote, whatever queue they came
// from: each where it was, with its whole trail, live ones in the order of the
// lines. A job that was claimed comes as open, since its owner is not here, or as dead
// where it may be started only once; by says in its trail who did it. A done job is
// retained as long as one that is done now.
//
// It blocks until every outcome is known or ctx ends. errs[i] is nil when line i was
// put. [*workqueue.ExistsError] means that its ID is in use, where Job tells by what: a job of
// the same IdempotencyKey is the very job, imported before. With replace, other jobs
// make way, unless they are claimed. [coord.ErrUnknown]: ctx ended first.
func Import(ctx context.Context, q *workqueue.Queue, lines [][]byte, replace bool, by workqueue.By) (errs []error) {
	errs = make([]error, len(lines))
	for done := 0; done < len(lines); {
		n := inOneFlight(lines[done:])
		importTogether(ctx, q, lines[done:done+n], errs[done:done+n], replace, by)
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
func importTogether(ctx context.Context, q *workqueue.Queue, lines [][]byte, errs []error, replace bool, by workqueue.By) {
	under := make([]*importing, len(lines))
	for i, line := range lines {
		if under[i], errs[i] = beginImport(ctx, q, line, by); errs[i] != nil {
			errs[i] = fmt.Errorf("import to %s: %w", coreOf(q).Name(), errs[i])
		}
	}
	for i, im := range under {
		if im == nil {
			continue
		}
		if err := im.settle(ctx, replace); err != nil {
			errs[i] = fmt.Errorf("import job %s to %s: %w", im.Record.ID, coreOf(q).Name(), err)
		}
	}
}

// importing is one import under way.
type importing struct {
	q *workqueue.Queue
	*job.Imported
	lease   clientv3.LeaseID
	pending *lane.Pending
}

func beginImport(ctx context.Context, q *workqueue.Queue, line []byte, by workqueue.By) (*importing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(job.By(by).Validate(), coreOf(q).Backlog.Check(coreOf(q))); err != nil {
		return nil, err
	}
	read, err := job.ReadLine(line, coreOf(q).MaxPayload)
	if err != nil {
		return nil, &coord.InputError{Field: "line", Value: fmt.Sprintf("%.60s", line), Reason: err.Error()}
	}
	if err := read.Unclaim(job.By(by)); err != nil {
		return nil, err
	}
	im := &importing{q: q, Imported: read}
	im.Record.Seq = coreOf(q).Seq.Add(1)
	return im, im.send(ctx, job.ImportSeen{})
}

// send hands a try over.
func (im *importing) send(ctx context.Context, seen job.ImportSeen) (err error) {
	if im.Where == job.InDone {
		if im.lease, err = coreOf(im.q).Retention.Lease(ctx, im.Record.Size()); err != nil {
			return err
		}
	}
	txn, err := coreOf(im.q).Txns.Restore(im.Restored(im.lease), seen)
	if err != nil {
		return err
	}
	im.pending = coreOf(im.q).Committer.Go(txn)
	return nil
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
			coreOf(im.q).Retention.Lost(im.lease)
		default:
			return err
		}
		im.Record.Nonce = keyspace.NewNonce()
		if err := im.send(ctx, seen); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: others keep using the id", workqueue.ErrConflict)
}

// judge looks at what is there under the ID, and tells what may make way.
func (im *importing) judge(ctx context.Context, r lane.Result, replace bool) (seen job.ImportSeen, err error) {
	for where := job.InJobs; where <= job.InDead; where++ {
		kv := r.Get(int(where))
		if kv == nil {
			continue
		}
		old, derr := coreOf(im.q).Txns.Decode(where, kv)
		if derr != nil {
			return seen, fmt.Errorf("%w, but it cannot be read: %w", workqueue.ErrExists, derr)
		}
		same := old.Born == im.Record.Born
		if /*mutant:import-same*/ same || !replace || /*mutant:import-claimed*/ old.Claimed() {
			return seen, &workqueue.ExistsError{Job: viewNow(ctx, im.q, old, where, kv)}
		}
		seen[where] = kv.ModRevision
	}
	return seen, nil
}

func viewNow(ctx context.Context, q *workqueue.Queue, r *job.Record, where job.Place, kv *mvccpb.KeyValue) *workqueue.Job {
	return viewOf(r, coreOf(q).Name(), where, kv.ModRevision, time.Now(), coreOf(q).PresumedAlive(ctx))
}
