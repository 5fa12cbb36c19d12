package workqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
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
// live ones in the queue's order, then dead, then done ones. All are read at one
// revision, and payloads only as their lines are yielded, a few together; the records
// of live jobs are kept in memory meanwhile. [Queue.ImportBatch] takes the lines, in their order,
// in another cluster or under another root. A record that cannot be read is yielded
// as an error, which matches [ErrUndecodable], and the export goes on; any other
// error ends it.
func (q *Queue) Export(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := q.export(ctx, yield); err != nil && !errors.Is(err, errEnough) {
			yield(nil, fmt.Errorf("export queue %s: %w", q.name, err))
		}
	}
}

// errEnough ends an export whose caller wants no more.
var errEnough = errors.New("enough")

func (q *Queue) export(ctx context.Context, yield func([]byte, error) bool) error {
	rev := int64(0)
	for _, where := range []place{inJobs, inDead, inDone} {
		rows, at, err := q.exportRows(ctx, where, rev, yield)
		if err != nil {
			return err
		}
		rev = at
		for group := range slices.Chunk(rows, exportAtOnce) {
			beside, err := q.exportBeside(ctx, group, where, rev)
			if err != nil {
				return err
			}
			for _, r := range group {
				line, err := q.exportLine(r, where, beside)
				if err != nil {
					return err
				}
				if !yield(line, nil) {
					return errEnough
				}
			}
		}
	}
	return nil
}

// exportRow is a record on its way out.
type exportRow struct {
	record *record
	rank   rank
}

// exportRows reads one directory at a revision, and tells that revision.
func (q *Queue) exportRows(ctx context.Context, where place, rev int64, yield func([]byte, error) bool) (rows []exportRow, at int64, err error) {
	prefix := map[place]string{inJobs: q.keys.Jobs(), inDead: q.keys.DeadJobs(), inDone: q.keys.DoneJobs()}[where]
	goOn := true
	at, err = q.store.Scan(ctx, prefix, rev, func(kvs []*mvccpb.KeyValue) bool {
		for _, kv := range kvs {
			r, err := q.txns.decode(where, kv)
			if err != nil {
				if goOn = yield(nil, fmt.Errorf("read %s: %w", kv.Key, err)); !goOn {
					return false
				}
				continue
			}
			rows = append(rows, exportRow{r, rank{r.Priority, kv.CreateRevision, r.Seq, r.ID}})
		}
		return true
	})
	switch {
	case !goOn:
		return nil, 0, errEnough
	case err != nil:
		return nil, 0, err
	}
	if where == inJobs { // a key's place says nothing about the queue's order
		slices.SortFunc(rows, func(a, b exportRow) int {
			if a.rank.before(b.rank) {
				return -1
			}
			return 1
		})
	}
	return rows, at, nil
}

// exportAtOnce is of how many jobs what lies beside them is read together: payloads
// can be large.
const exportAtOnce = 16

// besideKeys are the keys that may lie beside a job, "" where there is none.
func (q *Queue) besideKeys(r *record, where place) (payload, progress string) {
	if where == inDone { // it went with the job
		return "", ""
	}
	if r.Beside > 0 {
		payload = q.keys.Payload(r.ID)
	}
	if r.Attempt > 0 {
		progress = q.keys.Progress(r.ID)
	}
	return payload, progress
}

// exportBeside reads what lies beside some jobs as it was, or as it is now where etcd
// has forgotten that.
func (q *Queue) exportBeside(ctx context.Context, rows []exportRow, where place, rev int64) (map[string][]byte, error) {
	read := func(rev int64) (found map[string][]byte, err error) {
		var gets []clientv3.Op
		for _, row := range rows {
			payload, progress := q.besideKeys(row.record, where)
			for _, key := range []string{payload, progress} {
				if key != "" {
					gets = append(gets, clientv3.OpGet(key, clientv3.WithRev(rev)))
				}
			}
		}
		if len(gets) == 0 {
			return nil, nil
		}
		resp, err := q.store.Read(ctx, gets...)
		if err != nil {
			return nil, fmt.Errorf("export what lies beside %s and others: %w", rows[0].record.ID, err)
		}
		found = map[string][]byte{}
		for _, r := range resp.Responses {
			for _, kv := range r.GetResponseRange().Kvs {
				found[string(kv.Key)] = kv.Value
			}
		}
		return found, nil
	}
	found, err := read(rev)
	if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		return read(0)
	}
	return found, err
}

func (q *Queue) exportLine(row exportRow, where place, beside map[string][]byte) ([]byte, error) {
	r := *row.record
	r.Seq = 0
	value, err := r.encode()
	if err != nil {
		return nil, err
	}
	line := exported{Version: exportVersion, Queue: q.name, Where: places[where]}
	if line.Record, err = without(value, "w"); err != nil {
		return nil, fmt.Errorf("export job %s: %w", r.ID, err)
	}
	payload, progress := q.besideKeys(&r, where)
	line.Payload = beside[payload]
	if note := beside[progress]; json.Valid(note) {
		if line.Progress, err = without(note, "w", "token"); err != nil {
			return nil, fmt.Errorf("export progress of job %s: %w", r.ID, err)
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
