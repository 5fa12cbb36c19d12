package workqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/queue"
)

// exportVersion is the version of the format of one exported line.
const exportVersion = 1

// exported is a job outside of etcd: everything that it is, and nothing that only
// means something in the cluster that it came from.
type exported struct {
	Version int    `json:"v"`
	Queue   string `json:"queue"`
	Where   string `json:"where"` // jobs, done or dead
	// Record has no head nonce and no place among jobs of one revision: both are given
	// anew. The lines of live jobs stand in the queue's order instead.
	Record json.RawMessage `json:"record"`
	// Payload is one that lies beside its record.
	Payload []byte `json:"payload_beside_base64,omitempty"`
	// Progress has neither head nonce nor token.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// Export yields every job of the queue as one line of JSON without its newline:
// live ones in the queue's order, then dead, then done ones. All records are read at one
// revision, before the first line, and kept in memory; what lies beside them is read at
// that revision for a few jobs together, as their lines are yielded. When etcd has
// compacted it by then, a job that has not changed since is yielded with what lies beside
// it now, and one that has changed as an error, which matches [ErrConflict]. So each line
// was true at one moment. [Queue.ImportBatch] takes the lines, in their order,
// in another cluster or under another root. A record that cannot be read is yielded
// as an error, which matches [ErrUndecodable]. After errors of these two kinds the
// export goes on; any other ends it.
func (q *Queue) Export(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		x := &exporting{q: q}
		if err := x.read(ctx); err != nil {
			yield(nil, fmt.Errorf("export queue %s: %w", q.core.Name, err))
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
	q      *Queue
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
	for _, d := range directoriesOf(x.q.core.Store.Keys(), x.q.core.Name) {
		first := len(x.rows)
		at, err := x.q.core.Store.Scan(ctx, d.prefix, x.rev, func(kvs []*mvccpb.KeyValue) bool {
			for _, kv := range kvs {
				x.take(d.where, kv)
			}
			return true
		})
		if err != nil {
			return err
		}
		x.rev = at
		if d.where == job.InJobs { // a key's place says nothing about the queue's order
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
	r, err := x.q.core.Txns.Decode(where, kv)
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
		yield(nil, fmt.Errorf("export queue %s: read what lies beside job %s and those after it: %w", x.q.core.Name, group[0].Record.ID, err))
		return false
	}
	for i, row := range group {
		group[i].Record = nil // what has been yielded need not be kept
		if !beside[i].same {
			err := fmt.Errorf("export job %s: %w: etcd has compacted revision %d before all of the job was read; export again", row.Record.ID, ErrConflict, x.rev)
			if !yield(nil, err) {
				return false
			}
			continue
		}
		line, err := x.q.exportLine(row.Snapshot, beside[i].Beside)
		if err != nil {
			yield(nil, fmt.Errorf("export queue %s: job %s: %w", x.q.core.Name, row.Record.ID, err))
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
		gets = append(gets, clientv3.OpGet(x.q.core.Txns.Key(row.Where, id), asOf),
			clientv3.OpGet(x.q.core.Keys.Payload(id), asOf), clientv3.OpGet(x.q.core.Keys.Progress(id), asOf))
	}
	if len(gets) == 0 {
		return all, nil
	}
	resp, err := x.q.core.Store.Read(ctx, gets...)
	if err != nil {
		return nil, err
	}
	for i, n := range first {
		all[i].same = group[i].IsFrom(queue.Only(resp, n))
		all[i].Payload, all[i].Progress = queue.Only(resp, n+1).GetValue(), queue.Only(resp, n+2).GetValue()
	}
	return all, nil
}

func (q *Queue) exportLine(l job.Snapshot, b job.Beside) ([]byte, error) {
	r := *l.Record
	r.Seq = 0
	value, err := r.Encode()
	if err != nil {
		return nil, err
	}
	line := exported{Version: exportVersion, Queue: q.core.Name, Where: places[l.Where]}
	if line.Record, err = without(value, "w"); err != nil {
		return nil, err
	}
	if r.Beside > 0 && l.Where != job.InDone {
		line.Payload = b.Payload
	}
	if r.Attempt > 0 && json.Valid(b.Progress) {
		if line.Progress, err = without(b.Progress, "w", "token"); err != nil {
			return nil, fmt.Errorf("its progress: %w", err)
		}
	}
	return job.EncodeJSON(line)
}

// places are the names of the directories in a line.
var places = map[job.Place]string{job.InJobs: "jobs", job.InDone: "done", job.InDead: "dead"}

// without returns a JSON object without some members. The others keep their bytes
// and their order.
func without(object []byte, names ...string) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(all, name)
	}
	return job.EncodeJSON(all) // by name: the same job always gives the same line
}
