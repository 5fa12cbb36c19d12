package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
	"github.com/leasekit/leasekit/workqueue"
)

// Export yields every job of the queue as one line of JSON without its newline:
// live ones in the queue's order, then dead, then done ones. All records are read at one
// revision, before the first line, and kept in memory; what lies beside them is read at
// that revision for a few jobs together, as their lines are yielded. When etcd has
// compacted it by then, a job that has not changed since is yielded with what lies beside
// it now, and one that has changed as an error, which matches [workqueue.ErrConflict]. So each line
// was true at one moment. [Import] takes the lines, in their order,
// in another cluster or under another root. A record that cannot be read is yielded
// as an error, which matches [workqueue.ErrUndecodable]. After errors of these two kinds the
// export goes on; any other ends it.
func Export(ctx context.Context, q *workqueue.Queue) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		x := &exporting{q: q}
		if err := x.read(ctx); err != nil {
			yield(nil, fmt.Errorf("export queue %s: %w", coreOf(q).Name(), err))
			return
		}
		for _, err := range x.unread {
			if !yield(nil, err) {
				return
			}
		}
		for group := range slices.Chunk(x.rows, exportAtOnce) {
			if !x.yield(ctx, group, yield) {
				return
			}
		}
	}
}

// exporting is an export under way.
type exporting struct {
	q      *workqueue.Queue
	rev    int64
	rows   []exportRow
	unread []error
}

// exportRow is a record on its way out.
type exportRow struct {
	job.Snapshot
	rank job.Rank
}

// read reads all records at one revision, again when etcd compacts it meanwhile.
func (x *exporting) read(ctx context.Context) error {
	for try := 0; ; try++ {
		x.rev, x.rows, x.unread = 0, nil, nil
		err := x.readOnce(ctx)
		if err == nil || !queue.IsForgotten(err) || try >= queue.MaxTries {
			return err
		}
	}
}

func (x *exporting) readOnce(ctx context.Context) error {
	for _, d := range queue.DirectoriesOf(coreOf(x.q).Store.Keys(), coreOf(x.q).Name()) {
		first := len(x.rows)
		at, err := coreOf(x.q).Store.Scan(ctx, d.Prefix, x.rev, func(kvs []*mvccpb.KeyValue) bool {
			for _, kv := range kvs {
				x.take(d.Where, kv)
			}
			return true
		})
		if err != nil {
			return err
		}
		x.rev = at
		if d.Where == job.InJobs { // a key's place says nothing about the queue's order
			slices.SortFunc(x.rows[first:], func(a, b exportRow) int {
				if a.rank.Before(b.rank) {
					return -1
				}
				return 1
			})
		}
	}
	return nil
}

func (x *exporting) take(where job.Place, kv *mvccpb.KeyValue) {
	r, err := coreOf(x.q).Txns.Decode(where, kv)
	if err != nil {
		x.unread = append(x.unread, fmt.Errorf("read %s: %w", kv.Key, err))
		return
	}
	l := job.Snapshot{Record: r, Where: where, Rev: kv.ModRevision}
	x.rows = append(x.rows, exportRow{l, job.Rank{Priority: r.Priority, CreateRev: kv.CreateRevision, Seq: r.Seq, ID: r.ID}})
}

// exportAtOnce is of how many jobs what lies beside them is read together: payloads
// can be large.
const exportAtOnce = 16

// yield hands on the lines of some jobs, and tells whether the export goes on.
func (x *exporting) yield(ctx context.Context, group []exportRow, yield func([]byte, error) bool) bool {
	beside, err := x.beside(ctx, group)
	if err != nil {
		yield(nil, fmt.Errorf("export queue %s: read what lies beside job %s and those after it: %w", coreOf(x.q).Name(), group[0].Record.ID, err))
		return false
	}
	for i, row := range group {
		group[i].Record = nil // what has been yielded need not be kept
		if !beside[i].same {
			err := fmt.Errorf("export job %s: %w: etcd has compacted revision %d before all of the job was read; export again", row.Record.ID, workqueue.ErrConflict, x.rev)
			if !yield(nil, err) {
				return false
			}
			continue
		}
		line, err := job.ExportLine(coreOf(x.q).Name(), row.Snapshot, beside[i].Beside)
		if err != nil {
			yield(nil, fmt.Errorf("export queue %s: job %s: %w", coreOf(x.q).Name(), row.Record.ID, err))
			return false
		}
		beside[i] = exportBeside{}
		if !yield(line, nil) {
			return false
		}
	}
	return true
}

// exportBeside is what lies beside a record; same tells that the record was the same at
// the revision at which that was read.
type exportBeside struct {
	job.Beside
	same bool
}

// beside reads what lies beside some records, as of the export's revision, or of now when
// that is compacted.
func (x *exporting) beside(ctx context.Context, group []exportRow) ([]exportBeside, error) {
	all, err := x.besideAt(ctx, group, x.rev)
	if queue.IsForgotten(err) {
		return x.besideAt(ctx, group, 0)
	}
	return all, err
}

// besideAt reads each record again too: what lies beside another one says nothing of it.
func (x *exporting) besideAt(ctx context.Context, group []exportRow, rev int64) ([]exportBeside, error) {
	asOf := clientv3.WithRev(rev)
	all, gets, first := make([]exportBeside, len(group)), []clientv3.Op(nil), map[int]int{}
	for i, row := range group {
		id := row.Record.ID
		if row.Where == job.InDone || row.Record.Beside == 0 && row.Record.Attempt == 0 {
			all[i].same = true // nothing lies beside it
			continue
		}
		first[i] = len(gets)
		gets = append(gets, clientv3.OpGet(coreOf(x.q).Txns.Key(row.Where, id), asOf),
			clientv3.OpGet(coreOf(x.q).Keys().Payload(id), asOf), clientv3.OpGet(coreOf(x.q).Keys().Progress(id), asOf))
	}
	if len(gets) == 0 {
		return all, nil
	}
	resp, err := coreOf(x.q).Store.Read(ctx, gets...)
	if err != nil {
		return nil, err
	}
	for i, n := range first {
		all[i].same = group[i].IsFrom(queue.Only(resp, n))
		all[i].Payload, all[i].Progress = queue.Only(resp, n+1).GetValue(), queue.Only(resp, n+2).GetValue()
	}
	return all, nil
}
