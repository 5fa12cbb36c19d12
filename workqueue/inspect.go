package workqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/queue"
)

// Get returns the job of that ID, live, done or dead, with its payload, progress
// and checkpoint, all read at one revision. It returns [ErrNotFound] when there is
// none.
func (q *Queue) Get(ctx context.Context, id string) (*Job, error) {
	j, _, err := q.look(ctx, id, 0, true)
	if err != nil {
		return nil, fmt.Errorf("get job %s of %s: %w", id, q.core.Name(), err)
	}
	return j, nil
}

// looked tells when a job was looked at: rev is etcd's revision then, created that at
// which the job's key was put where it is.
type looked struct{ rev, created int64 }

// look is Get as of a revision; 0 is now. Owners tells to ask whether the job's owner
// lives; else it is taken to, and sessions need not be readable.
func (q *Queue) look(ctx context.Context, id string, at int64, owners bool) (*Job, looked, error) {
	for try := 0; ; try++ {
		j, seen, err := q.lookOnce(ctx, id, at, owners)
		// Of an owner it is asked at the same revision, which may just have been compacted.
		if err == nil || at != 0 || !queue.IsForgotten(err) || try >= 2 {
			return j, seen, err
		}
	}
}

func (q *Queue) lookOnce(ctx context.Context, id string, at int64, owners bool) (*Job, looked, error) {
	if err := keyspace.ValidateName("id", id); err != nil {
		return nil, looked{}, err
	}
	asOf := clientv3.WithRev(at)
	l, resp, err := q.core.FindAt(ctx, at, id, clientv3.OpGet(q.core.Keys().Payload(id), asOf), clientv3.OpGet(q.core.Keys().Progress(id), asOf))
	if err != nil {
		return nil, looked{}, err
	}
	seen := looked{rev: cmp.Or(at, resp.Header.Revision), created: l.Created}
	if l.Record == nil {
		return nil, seen, ErrNotFound
	}
	lives := func(string, int64) bool { return true }
	if l.Record.Claimed() && owners {
		// As of the same revision: an owner that has closed the job since, and ended, left
		// no orphan.
		alive, err := q.core.OwnerLives(ctx, l.Record.Owner, l.Record.OwnerRev, clientv3.WithRev(seen.rev))
		if err != nil {
			return nil, looked{}, err
		}
		lives = func(string, int64) bool { return alive }
	}
	j := view(l.Record, q.core.Name(), l.Where, l.Rev, time.Now(), lives)
	if kvs := resp.Responses[3].GetResponseRange().Kvs; len(kvs) == 1 && l.Record.Beside > 0 {
		j.Payload = kvs[0].Value
	}
	if kvs := resp.Responses[4].GetResponseRange().Kvs; len(kvs) == 1 {
		var n job.Note
		if json.Unmarshal(kvs[0].Value, &n) == nil {
			j.Progress, j.Checkpoint = n.ProgressBytes(), n.CheckpointBytes()
		}
	}
	return j, seen, nil
}

// ReadKey makes j the job in a key of jobs, done or dead, for those who watch or read
// keys themselves. A claimed job is claimed, whether its owner lives or not, and a
// payload that lies beside is left out. It returns false for every other key, and for
// one without a value, such as a deleted one; the error matches [ErrUndecodable].
func (j *Job) ReadKey(keys keyspace.Keyspace, kv *mvccpb.KeyValue) (bool, error) {
	if kv == nil || len(kv.Value) == 0 {
		return false, nil
	}
	p, ok := keys.Parse(string(kv.Key))
	where := job.InJobs
	switch {
	case ok && p.Kind == "jobs":
	case ok && p.Kind == "done":
		where = job.InDone
	case ok && p.Kind == "dead":
		where = job.InDead
	default:
		return false, nil
	}
	r, err := job.Txns{Keys: keys.Queue(p.Queue), Space: keys}.Decode(where, kv)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", kv.Key, err)
	}
	*j = *view(r, p.Queue, where, kv.ModRevision, time.Now(), func(string, int64) bool { return true })
	return true, nil
}
