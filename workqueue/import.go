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
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/lane"
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
			errs[i] = fmt.Errorf("import to %s: %w", q.name, errs[i])
		}
	}
	for i, im := range under {
		if im == nil {
			continue
		}
		if err := im.settle(ctx, replace); err != nil {
			errs[i] = fmt.Errorf("import job %s to %s: %w", im.record.ID, q.name, err)
		}
	}
}

// importing is one import under way.
type importing struct {
	q       *Queue
	line    exported
	record  *record
	where   place
	note    string
	lease   clientv3.LeaseID
	pending *lane.Pending
}

func (q *Queue) beginImport(ctx context.Context, line []byte, by By) (*importing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(by.validate(), q.backlog.check(q)); err != nil {
		return nil, err
	}
	im := &importing{q: q}
	if err := im.read(line); err != nil {
		return nil, &coord.InputError{Field: "line", Value: fmt.Sprintf("%.60s", line), Reason: err.Error()}
	}
	if err := im.unclaim(by); err != nil {
		return nil, err
	}
	im.record.Seq = q.seq.Add(1)
	return im, im.send(ctx, importSeen{})
}

// unclaim takes the owner out, who is not here: the job is open, or dead where it may
// be started only once.
func (im *importing) unclaim(by By) error {
	if !im.record.claimed() {
		return nil
	}
	e := event{verb: verbBreak, now: time.Now(), nonce: keyspace.NewNonce(), by: by} //mutant:import-at-most-once
	n, err := transition(im.record, inJobs, e)
	if err != nil {
		return err
	}
	im.record, im.where = n.record, n.where
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
	if im.record, err = decodeRecord(value); err != nil {
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
	case r.claimed() && im.where != inJobs:
		return errors.New("it is over and claimed at once")
	case im.where != inDone && r.Beside != len(im.line.Payload):
		return fmt.Errorf("its payload has %d bytes, its record says %d", len(im.line.Payload), r.Beside)
	case len(r.Attempts) > logLimit:
		return fmt.Errorf("its trail has %d entries, at most %d are kept", len(r.Attempts), logLimit)
	}
	if err := im.checkLimits(); err != nil {
		return err
	}
	if len(im.line.Progress) == 0 {
		return nil
	}
	var n note
	if err := json.Unmarshal(im.line.Progress, &n); err != nil {
		return fmt.Errorf("its progress cannot be read: %w", err)
	}
	if err := errors.Join(checkSize("progress", len(n.progress()), maxProgress), checkSize("checkpoint", len(n.checkpoint()), maxProgress)); err != nil {
		return err
	}
	n.Nonce = keyspace.NewNonce()
	b, err := encodeJSON(n)
	im.note = string(b)
	return err
}

// checkLimits refuses what no enqueue and no handler may leave.
func (im *importing) checkLimits() error {
	payload, limit := im.line.Payload, im.q.cfg.MaxPayload
	if im.record.Beside == 0 {
		payload = im.record.payload()
	}
	if im.where == inDead {
		limit = max(limit, maxSalvage)
	}
	if err := im.record.params(payload).validate(limit); err != nil {
		return err
	}
	return checkSize("result", len(im.record.result()), MaxResult)
}

// send hands a try over.
func (im *importing) send(ctx context.Context, seen importSeen) (err error) {
	if im.where == inDone {
		if im.lease, err = im.q.retention.lease(ctx, im.record.size()); err != nil {
			return err
		}
	}
	txn, err := im.q.txns.restore(im, seen)
	if err != nil {
		return err
	}
	im.pending = im.q.committer.Go(txn)
	return nil
}

// settle waits for the outcome, and tries again over what makes way.
func (im *importing) settle(ctx context.Context, replace bool) error {
	for range maxTries {
		r, err := im.pending.Wait(ctx)
		var seen importSeen
		switch {
		case err == nil && r.Succeeded:
			return nil
		case err == nil:
			if seen, err = im.judge(ctx, r, replace); err != nil {
				return err
			}
		case im.lease != clientv3.NoLease && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
			im.q.retention.lost(im.lease)
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
func (im *importing) judge(ctx context.Context, r lane.Result, replace bool) (seen importSeen, err error) {
	for where := inJobs; where <= inDead; where++ {
		kv := r.Get(int(where))
		if kv == nil {
			continue
		}
		old, derr := im.q.txns.decode(where, kv)
		if derr != nil {
			return seen, fmt.Errorf("%w, but it cannot be read: %w", ErrExists, derr)
		}
		same := old.Born == im.record.Born
		if /*mutant:import-same*/ same || !replace || /*mutant:import-claimed*/ old.claimed() {
			return seen, &ExistsError{Job: im.q.viewOf(ctx, old, where, kv)}
		}
		seen[where] = kv.ModRevision
	}
	return seen, nil
}

func (q *Queue) viewOf(ctx context.Context, r *record, where place, kv *mvccpb.KeyValue) *Job {
	return r.view(q.name, where, kv.ModRevision, time.Now(), q.presumedAlive(ctx))
}

// importSeen are the mod revisions of what was found under the ID, by place; 0 where
// nothing was.
type importSeen [3]int64

// restore puts a job where it was, in the place of what was seen there.
func (t txns) restore(im *importing, seen importSeen) (etcdkv.Txn, error) {
	value, err := im.record.encode()
	if err != nil {
		return etcdkv.Txn{}, err
	}
	id := im.record.ID
	txn := etcdkv.Txn{Origin: "import", InOrder: true} // a job's age is the revision that creates it
	var opts []clientv3.OpOption
	if im.where == inDone {
		if im.lease == clientv3.NoLease {
			return etcdkv.Txn{}, fmt.Errorf("keep job %s: a finished job needs a retention lease", id)
		}
		opts = append(opts, clientv3.WithLease(im.lease))
	}
	txn.Then = append(txn.Then, clientv3.OpPut(t.key(im.where, id), string(value), opts...))
	for where := inJobs; where <= inDead; where++ {
		key := t.key(where, id)
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(key), "=", seen[where])) //mutant:import-seen
		txn.Else = append(txn.Else, clientv3.OpGet(key))
		if seen[where] != 0 && where != im.where {
			txn.Then = append(txn.Then, clientv3.OpDelete(key))
		}
	}
	t.besides(&txn, t.keys.Payload(id), string(im.line.Payload), seen)
	t.besides(&txn, t.keys.Progress(id), im.note, seen)
	return txn, nil
}

// besides puts what belongs to the job, or deletes what belonged to the one before.
func (t txns) besides(txn *etcdkv.Txn, key, value string, seen importSeen) {
	switch {
	case value != "":
		txn.Then = append(txn.Then, clientv3.OpPut(key, value))
	case seen != importSeen{}:
		txn.Then = append(txn.Then, clientv3.OpDelete(key))
	}
}
