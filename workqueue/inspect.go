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
	l, resp, err := q.locate(ctx, id, clientv3.OpGet(q.keys.Payload(id)), clientv3.OpGet(q.keys.Progress(id)))
	if err != nil {
		return nil, 0, err
	}
	rev := resp.Header.Revision
	if l.record == nil {
		return nil, rev, ErrNotFound
	}
	lives := nobody
	if l.record.claimed() {
		alive, err := q.ownerLives(ctx, l.record)
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

// ownerLives asks etcd whether a claim's owner has its session.
func (q *Queue) ownerLives(ctx context.Context, r *record) (bool, error) {
	resp, err := q.store.Get(ctx, q.store.Keys().Session(r.Owner))
	if err != nil {
		return false, err
	}
	return len(resp.Kvs) == 1 && resp.Kvs[0].CreateRevision == r.OwnerRev, nil
}

// Wait blocks until the job is done, dead or cancelled, and returns it. It
// watches; it does not poll. It returns [ErrNotFound] when there is no such job, or
// no longer: a job that was not kept long enough leaves nothing to return.
func (q *Queue) Wait(ctx context.Context, id string) (*Job, error) {
	for {
		j, rev, err := q.look(ctx, id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("wait for job %s of %s: %w", id, q.name, err)
		case !j.State.Live():
			return j, nil
		}
		if err := q.awaitEnd(ctx, id, rev+1); err != nil {
			return nil, fmt.Errorf("wait for job %s of %s: %w", id, q.name, err)
		}
	}
}

// awaitEnd watches until the job's live key is deleted, or the watch breaks.
func (q *Queue) awaitEnd(ctx context.Context, id string, rev int64) error {
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range q.store.Watch(watchCtx, q.keys.Job(id), rev, clientv3.WithFilterPut()) {
		if len(resp.Events) > 0 || resp.Err() != nil {
			return nil // look again
		}
	}
	return context.Cause(ctx)
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
// revision. Payloads that lie beside their record are left out. A record that
// cannot be read is yielded as an error, which matches [ErrUndecodable], and the
// listing goes on; any other error ends it.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		lives, err := q.liveOwners(ctx, f)
		if err != nil {
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
		r, err := decodeRecord(kv.Value)
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

// liveOwners reads all sessions, unless no live job is wanted.
func (q *Queue) liveOwners(ctx context.Context, f Filter) (func(string, int64) bool, error) {
	if !f.wants(inJobs) {
		return nobody, nil
	}
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

// WaitEmpty blocks until no live job is left in the queue: none ready, scheduled
// or claimed by anybody. It watches, and confirms with one linearizable count.
func (q *Queue) WaitEmpty(ctx context.Context) error {
	if err := q.sync(ctx); err != nil {
		return err
	}
	changed, stop := q.index.listen()
	defer stop()
	for {
		select {
		case <-q.index.emptied():
			resp, err := q.store.Get(ctx, q.keys.Jobs(), clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return fmt.Errorf("count jobs of %s: %w", q.name, err)
			}
			if resp.Count == 0 {
				return nil
			}
			// The mirror lags, or what is left cannot be read: wait for a change.
			select {
			case <-changed:
			case <-time.After(time.Second):
			case <-ctx.Done():
				return fmt.Errorf("wait until %s is empty: %w", q.name, context.Cause(ctx))
			}
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is empty: %w", q.name, context.Cause(ctx))
		}
	}
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
