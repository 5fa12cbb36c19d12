package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
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
// that revision as their lines are yielded. When etcd has compacted it by then, a job
// that has not changed since is yielded with what lies beside it now, and one that has
// changed as an error, which matches [ErrConflict]. So each line was true at one moment.
// [Queue.ImportBatch] takes the lines, in their order,
// in another cluster or under another root. A record that cannot be read is yielded
// as an error, which matches [ErrUndecodable]. After errors of these two kinds the
// export goes on; any other ends it.
func (q *Queue) Export(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		x := &exporting{q: q}
		if err := x.read(ctx); err != nil {
			yield(nil, fmt.Errorf("export queue %s: %w", q.name, err))
			return
		}
		for _, err := range x.unread {
			if !yield(nil, err) {
				return
			}
		}
		for i := range x.rows {
			line, err := x.line(ctx, x.rows[i])
			x.rows[i].record = nil // what has been yielded need not be kept
			switch {
			case err == nil:
			case errors.Is(err, ErrConflict):
				err = fmt.Errorf("export job %w", err)
			default:
				yield(nil, fmt.Errorf("export queue %s: job %w", q.name, err))
				return
			}
			if !yield(line, err) {
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
	located
	rank rank
}

// read reads all records at one revision, again when etcd compacts it meanwhile.
func (x *exporting) read(ctx context.Context) error {
	for try := 0; ; try++ {
		x.rev, x.rows, x.unread = 0, nil, nil
		err := x.readOnce(ctx)
		if err == nil || !isForgotten(err) || try >= maxTries {
			return err
		}
	}
}

func (x *exporting) readOnce(ctx context.Context) error {
	for where, prefix := range x.q.directories() {
		first := len(x.rows)
		at, err := x.q.store.Scan(ctx, prefix, x.rev, func(kvs []*mvccpb.KeyValue) bool {
			for _, kv := range kvs {
				x.take(where, kv)
			}
			return true
		})
		if err != nil {
			return err
		}
		x.rev = at
		if where == inJobs { // a key's place says nothing about the queue's order
			slices.SortFunc(x.rows[first:], func(a, b exportRow) int {
				if a.rank.before(b.rank) {
					return -1
				}
				return 1
			})
		}
	}
	return nil
}

func (x *exporting) take(where place, kv *mvccpb.KeyValue) {
	r, err := x.q.txns.decode(where, kv)
	if err != nil {
		x.unread = append(x.unread, fmt.Errorf("read %s: %w", kv.Key, err))
		return
	}
	l := located{record: r, where: where, rev: kv.ModRevision}
	x.rows = append(x.rows, exportRow{l, rank{r.Priority, kv.CreateRevision, r.Seq, r.ID}})
}

// line makes the line of one job. Its errors begin with the job's id.
func (x *exporting) line(ctx context.Context, row exportRow) ([]byte, error) {
	b, err := x.beside(ctx, row.located)
	if err == nil {
		var line []byte
		if line, err = x.q.exportLine(row.located, b); err == nil {
			return line, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", row.record.ID, err)
}

// beside reads what lies beside a record, as of the export's revision, or of now when
// that is compacted and the record is the same now.
func (x *exporting) beside(ctx context.Context, l located) (besides, error) {
	if l.where == inDone || l.record.Beside == 0 && l.record.Attempt == 0 {
		return besides{}, nil // there is none
	}
	for _, at := range []int64{x.rev, 0} {
		now, b, err := x.q.findBeside(ctx, l.record.ID, at)
		switch {
		case at != 0 && isForgotten(err):
			continue
		case err != nil && !errors.Is(err, ErrUndecodable):
			return b, err
		case err == nil && now.isSame(l):
			return b, nil
		}
		break
	}
	return besides{}, fmt.Errorf("%w: etcd has compacted revision %d before all of the job was read; export again", ErrConflict, x.rev)
}

func (q *Queue) exportLine(l located, b besides) ([]byte, error) {
	r := *l.record
	r.Seq = 0
	value, err := r.encode()
	if err != nil {
		return nil, err
	}
	line := exported{Version: exportVersion, Queue: q.name, Where: places[l.where]}
	if line.Record, err = without(value, "w"); err != nil {
		return nil, err
	}
	if r.Beside > 0 && l.where != inDone {
		line.Payload = b.payload
	}
	if r.Attempt > 0 && json.Valid(b.progress) {
		if line.Progress, err = without(b.progress, "w", "token"); err != nil {
			return nil, fmt.Errorf("its progress: %w", err)
		}
	}
	return encodeJSON(line)
}

// places are the names of the directories in a line.
var places = map[place]string{inJobs: "jobs", inDone: "done", inDead: "dead"}

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
	return encodeJSON(all) // by name: the same job always gives the same line
}
