package workqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
)

// Get returns the job of that ID, live, done or dead, with its payload, progress
// and checkpoint, all read at one revision. It returns [ErrNotFound] when there is
// none.
func (q *Queue) Get(ctx context.Context, id string) (*Job, error) {
	j, _, err := q.look(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("get job %s of %s: %w", id, q.name, err)
	}
	return j, nil
}

// look is Get, with the revision at which it looked.
func (q *Queue) look(ctx context.Context, id string) (*Job, int64, error) {
	if err := coord.ValidateName("id", id); err != nil {
		return nil, 0, err
	}
	l, resp, err := q.find(ctx, id, clientv3.OpGet(q.keys.Payload(id)), clientv3.OpGet(q.keys.Progress(id)))
	if err != nil {
		return nil, 0, err
	}
	rev := resp.Header.Revision
	if l.record == nil {
		return nil, rev, ErrNotFound
	}
	lives := nobody
	if l.record.claimed() {
		alive, err := q.ownerLives(ctx, l.record.Owner, l.record.OwnerRev)
		if err != nil {
			return nil, 0, err
		}
		lives = func(string, int64) bool { return alive }
	}
	j := l.record.view(q.name, l.where, l.rev, time.Now(), lives)
	if kvs := resp.Responses[3].GetResponseRange().Kvs; len(kvs) == 1 && l.record.Beside > 0 {
		j.Payload = kvs[0].Value
	}
	if kvs := resp.Responses[4].GetResponseRange().Kvs; len(kvs) == 1 {
		var n note
		if json.Unmarshal(kvs[0].Value, &n) == nil {
			j.Progress, j.Checkpoint = n.progress(), n.checkpoint()
		}
	}
	return j, rev, nil
}

// find is locate, which refuses a record that names another job than its key.
func (q *Queue) find(ctx context.Context, id string, more ...clientv3.Op) (located, *clientv3.TxnResponse, error) {
	l, resp, err := q.locate(ctx, id, more...)
	if err == nil && l.record != nil && l.record.ID != id {
		return located{}, nil, fmt.Errorf("%w: %s names job %q", ErrUndecodable, q.txns.key(l.where, id), l.record.ID)
	}
	return l, resp, err
}

// ownerLives asks etcd whether a claim's owner has its session.
func (q *Queue) ownerLives(ctx context.Context, sid string, rev int64) (bool, error) {
	resp, err := q.store.Get(ctx, q.store.Keys().Session(sid))
	if err != nil {
		return false, err
	}
	return len(resp.Kvs) == 1 && resp.Kvs[0].CreateRevision == rev, nil
}

// Filter selects jobs for [Queue.List]. The zero value selects all.
type Filter struct {
	// States selects by state; empty means all.
	States []State
	// Kind selects one kind; "" means all.
	Kind string
	// Labels must all be there with these values.
	Labels map[string]string
}

func (f Filter) validate() error {
	for _, s := range f.States {
		if !slices.Contains(allStates, s) {
			return &coord.InputError{Field: "state", Value: string(s), Reason: fmt.Sprintf("it is one of %v", allStates)}
		}
	}
	return nil
}

var allStates = []State{StateReady, StateScheduled, StateRetry, StateClaimed, StateOrphan, StateDone, StateDead, StateCancelled}

func (f Filter) wants(where place) bool {
	if len(f.States) == 0 {
		return true
	}
	return slices.ContainsFunc(f.States, func(s State) bool {
		switch where {
		case inDead:
			return s == StateDead
		case inDone:
			return s == StateDone || s == StateCancelled
		}
		return s.Live()
	})
}

func (f Filter) matches(j *Job) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, j.State) || f.Kind != "" && f.Kind != j.Kind {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := j.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// List yields the jobs that the filter selects: live ones in the queue's order,
// then dead, then done and cancelled ones by ID. Each group is read at one
// revision; a job that moves to another group meanwhile can show twice, or not.
// Payloads that lie beside their record are left out. A record that
// cannot be read is yielded as an error, which matches [ErrUndecodable], and the
// listing goes on; any other error ends it.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		if err := f.validate(); err != nil {
			yield(nil, fmt.Errorf("list jobs of %s: %w", q.name, err))
			return
		}
		for _, dir := range []struct {
			where  place
			prefix string
		}{{inJobs, q.keys.Jobs()}, {inDead, q.keys.DeadJobs()}, {inDone, q.keys.DoneJobs()}} {
			if !f.wants(dir.where) {
				continue
			}
			resp, err := q.store.List(ctx, dir.prefix)
			lives := nobody
			if err == nil && dir.where == inJobs && len(resp.Kvs) > 0 {
				// Behind the jobs: a session that began in between owns none of them.
				lives, err = q.liveOwners(ctx)
			}
			if err != nil {
				yield(nil, fmt.Errorf("list jobs of %s: %w", q.name, err))
				return
			}
			if !q.listDir(resp.Kvs, dir.where, f, lives, yield) {
				return
			}
		}
	}
}

// listDir yields one directory; false means that the caller has enough.
func (q *Queue) listDir(kvs []*mvccpb.KeyValue, where place, f Filter, lives func(string, int64) bool, yield func(*Job, error) bool) bool {
	now := time.Now()
	type row struct {
		job  *Job
		rank rank
	}
	var rows []row
	for _, kv := range kvs {
		r, err := q.txns.decode(where, kv)
		if err != nil {
			if !yield(nil, fmt.Errorf("read %s: %w", kv.Key, err)) {
				return false
			}
			continue
		}
		if j := r.view(q.name, where, kv.ModRevision, now, lives); f.matches(j) {
			rows = append(rows, row{j, rank{r.Priority, kv.CreateRevision, r.Seq, r.ID}})
		}
	}
	if where == inJobs {
		slices.SortFunc(rows, func(a, b row) int {
			if a.rank.before(b.rank) {
				return -1
			}
			return 1
		})
	}
	for _, r := range rows {
		if !yield(r.job, nil) {
			return false
		}
	}
	return true
}

// liveOwners reads all sessions.
func (q *Queue) liveOwners(ctx context.Context) (func(string, int64) bool, error) {
	prefix := q.store.Keys().Sessions()
	resp, err := q.store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	created := map[string]int64{}
	for _, kv := range resp.Kvs {
		created[strings.TrimPrefix(string(kv.Key), prefix)] = kv.CreateRevision
	}
	return func(sid string, rev int64) bool {
		got, ok := created[sid]
		return ok && got == rev
	}, nil
}

// Refusals returns the evidence of refused late writes, by job ID, as far as it is
// retained: the last one of each job.
func (q *Queue) Refusals(ctx context.Context) (map[string]Refusal, error) {
	resp, err := q.store.List(ctx, q.keys.RefusedWrites())
	if err != nil {
		return nil, fmt.Errorf("list refused writes of %s: %w", q.name, err)
	}
	found := map[string]Refusal{}
	for _, kv := range resp.Kvs {
		var r Refusal
		if p, ok := q.store.Keys().Parse(string(kv.Key)); ok && json.Unmarshal(kv.Value, &r) == nil {
			found[p.ID] = r
		}
	}
	return found, nil
}

// Undecodable returns the keys of live records that cannot be read, with why, as
// the mirror shows them. They block nothing but themselves.
func (q *Queue) Undecodable(ctx context.Context) (map[string]error, error) {
	if err := q.sync(ctx); err != nil {
		return nil, err
	}
	q.index.mu.Lock()
	defer q.index.mu.Unlock()
	return maps.Clone(q.index.unread), nil
}
