package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// queueLook is one queue at the revision of the look.
type queueLook struct {
	name string
	keys keyspace.QueueKeys

	config     job.QueueConfig
	configRev  int64
	configErr  error  // why it cannot be read, so that nothing is claimed
	configText string // what it is then, quoted, of which a long one is cut
	// settingsErr names the settings that nobody goes by.
	settingsErr error
	workers     map[string]job.WorkerRecord

	// where tells in which directories a job's records are.
	where map[string]uint8
	// payloads, progress and inbox are the keys that lie beside jobs.
	payloads, progress, inbox []key

	unread  []unread
	open    []waiting          // jobs that can be claimed, or are beyond their attempts
	gone    []*workqueue.Job   // claimed by sessions that are gone
	running []*workqueue.Job   // claimed by those that live
	ranks   map[string]rank    // of gone and open jobs
	held    map[string]int     // jobs by owner
	tried   map[string]int     // jobs with counted losses by owner
	owned   map[string]ownedBy // claimed jobs that a dispatcher assigned
	large   []*workqueue.Job
	unfit   []*workqueue.Job
	over    []*workqueue.Job // beyond their attempts, and not claimed
	// noLease are done jobs that would never go away, or go with a session.
	noLease        []*mvccpb.KeyValue
	doneBytes      int
	newestEnqueued time.Time
}

// The directories of records, as bits of queueLook.where.
const (
	inJobs uint8 = 1 << iota
	inDone
	inDead
)

// unread is a record that cannot be read.
type unread struct {
	key
	err error
}

// waiting is a job that could be claimed now.
type waiting struct {
	id, kind, key string
	rev           int64
	since         time.Time
}

// ownedBy is who has a job, and by which assignment.
type ownedBy struct {
	sid string
	rev int64
}

// rank is a job's place in its queue.
type rank struct {
	priority int
	created  int64
}

func (r rank) before(o rank) bool {
	return r.priority > o.priority || r.priority == o.priority && r.created < o.created
}

func newQueueLook(keys keyspace.QueueKeys) *queueLook {
	return &queueLook{
		name: keys.Name(), keys: keys, workers: map[string]job.WorkerRecord{}, where: map[string]uint8{}, ranks: map[string]rank{},
		held: map[string]int{}, tried: map[string]int{}, owned: map[string]ownedBy{},
	}
}

// add takes up the name of one key.
func (q *queueLook) add(k key) {
	switch k.p.Kind {
	case "jobs":
		q.where[k.p.ID] |= inJobs
	case "done":
		q.where[k.p.ID] |= inDone
	case "dead":
		q.where[k.p.ID] |= inDead
	case "payloads":
		q.payloads = append(q.payloads, k)
	case "progress":
		q.progress = append(q.progress, k)
	case "assigned":
		q.inbox = append(q.inbox, k)
	}
}

// doneBudget bounds how many bytes of done jobs are read of a queue: their results can be large, and little can be wrong
// with them.
const doneBudget = 64 << 20

// part is a directory of a queue, and what takes up its keys.
type part struct {
	prefix string
	take   each
}

// readQueues reads settings and records of all queues. A queue of which a part may not be read is left out.
func (l *look) readQueues(ctx context.Context, r reader, keys keyspace.Keyspace) error {
	var parts []part
	for _, q := range l.queuesOf() {
		if _, whole := r.allowed.Readable(span(q.keys.Prefix(), prefixEnd(q.keys.Prefix()))); !whole {
			delete(l.queues, q.name)
			l.deny(dirQueues, q.keys.Prefix())
			continue
		}
		parts = append(parts, l.partsOf(q, r.queues, keys)...)
	}
	return r.scanParts(ctx, parts)
}

// partsOf are what is read of a queue: config, registrations, the leases of refusals, and the records.
func (l *look) partsOf(q *queueLook, queues workqueue.Queues, keys keyspace.Keyspace) []part {
	records := each(func(kvs []*mvccpb.KeyValue) error {
		l.addRecords(q, queues, kvs, keys)
		return nil
	})
	return []part{
		{q.keys.Config(), q.addConfig},
		{q.keys.Workers(), l.registrations(q, keys)},
		{q.keys.RefusedWrites(), l.refusals(q, keys)},
		{q.keys.Jobs(), records},
		{q.keys.DeadJobs(), records},
		{q.keys.DoneJobs(), func(kvs []*mvccpb.KeyValue) error {
			if q.doneBytes > doneBudget {
				return errEnough
			}
			return records(kvs)
		}},
	}
}

func (q *queueLook) addConfig(kvs []*mvccpb.KeyValue) error {
	for _, kv := range kvs {
		if string(kv.Key) == q.keys.Config() {
			q.configRev = kv.ModRevision
			q.settingsErr = new(workqueue.Config).ReadSettings(kv.Value)
			if errors.Is(q.settingsErr, workqueue.ErrUndecodable) {
				q.configErr, q.settingsErr, q.configText = q.settingsErr, nil, quoted(kv.Value)
			}
			_ = json.Unmarshal(kv.Value, &q.config) // as far as it can be read
		}
	}
	return nil
}

// registrations takes up who serves a queue.
func (l *look) registrations(q *queueLook, keys keyspace.Keyspace) each {
	return func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			p, ok := keys.Parse(string(kv.Key))
			if !ok {
				continue
			}
			if w := job.DecodeWorker(kv.Value); !w.Left {
				q.workers[p.Session] = w
			}
			if kv.Lease != int64(p.Lease()) {
				l.leaseless = append(l.leaseless, kv)
			}
		}
		return nil
	}
}

// quoted shows bytes that were not understood, at most maxQuoted of them.
func quoted(value []byte) string {
	if len(value) > maxQuoted {
		return strconv.Quote(string(value[:maxQuoted])) + " and " + strconv.Itoa(len(value)-maxQuoted) + " bytes more"
	}
	return strconv.Quote(string(value))
}

const maxQuoted = 1 << 10

// addRecords decodes a batch, on all processors, and takes up what it says.
func (l *look) addRecords(q *queueLook, queues workqueue.Queues, kvs []*mvccpb.KeyValue, keys keyspace.Keyspace) {
	jobs, errs := make([]*workqueue.Job, len(kvs)), make([]error, len(kvs))
	var wait sync.WaitGroup
	size := max(1, (len(kvs)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < len(kvs); from += size {
		wait.Go(func() {
			for i := from; i < min(from+size, len(kvs)); i++ {
				jobs[i], errs[i] = queues.Decode(kvs[i], l.lives)
			}
		})
	}
	wait.Wait()
	for i, kv := range kvs {
		k := key{name: string(kv.Key), rev: kv.ModRevision}
		switch p, ok := keys.Parse(k.name); {
		case ok && misnamed(p) != nil:
			if k.p = p; l.recordsLater && !strings.HasPrefix(k.name, q.keys.DoneJobs()) {
				l.misnamed = append(l.misnamed, k)
			}
			continue
		case ok && errs[i] != nil:
			k.p = p
			q.unread = append(q.unread, unread{k, errs[i]})
		case ok:
			k.p = p
			l.addJob(q, jobs[i], kv)
		case l.recordsLater && !strings.HasPrefix(k.name, q.keys.DoneJobs()):
			l.foreign = append(l.foreign, k)
			continue
		default:
			continue
		}
		if l.recordsLater {
			q.add(k)
		}
		if k.p.Kind == "done" {
			q.doneBytes += len(kv.Value)
			if l.leasedTo[kv.Lease] != "" || kv.Lease == 0 {
				q.noLease = append(q.noLease, kv)
			}
		}
	}
}

// largeValue is half of what etcd takes in one request, and three quarters of what a transition may carry.
const largeValue = 768 << 10

// addJob takes up one job.
func (l *look) addJob(q *queueLook, j *workqueue.Job, kv *mvccpb.KeyValue) {
	beside := j.PayloadSize
	if !j.State.Live() && j.State != workqueue.StateDead {
		beside = 0 // it went with the job
	}
	if max(len(kv.Value), beside) >= largeValue {
		q.large = append(q.large, small(j))
	}
	if !fitKind(j) {
		q.unfit = append(q.unfit, small(j))
	}
	for _, a := range j.Attempts {
		if a.Owner != "" {
			l.stamps.add(keyspace.IdentityOf(a.Owner), int64(a.Token), a.ClaimedAt)
		}
	}
	if j.EnqueuedAt.After(q.newestEnqueued) {
		q.newestEnqueued = j.EnqueuedAt
	}
	switch j.State {
	case workqueue.StateClaimed, workqueue.StateOrphan:
		l.stamps.add(keyspace.IdentityOf(j.Owner), int64(j.Token), j.ClaimedAt)
		q.owned[j.ID] = ownedBy{j.Owner, kv.ModRevision}
		q.held[j.Owner]++
		if j.Losses > 0 {
			q.tried[j.Owner]++
		}
		if j.State == workqueue.StateOrphan {
			q.gone = append(q.gone, small(j))
			q.ranks[j.ID] = rank{j.Priority, kv.CreateRevision}
		} else {
			q.running = append(q.running, small(j))
		}
	case workqueue.StateReady:
		since := j.EnqueuedAt
		if j.RunAt.After(since) {
			since = j.RunAt
		}
		q.open = append(q.open, waiting{j.ID, j.Kind, string(kv.Key), kv.ModRevision, since})
		q.ranks[j.ID] = rank{j.Priority, kv.CreateRevision}
	}
	if open := j.State == workqueue.StateReady || j.State == workqueue.StateRetry || j.State == workqueue.StateScheduled; open &&
		(j.Failures >= j.MaxAttempts || j.Losses >= j.MaxLosses) {
		q.over = append(q.over, small(j))
	}
}

// small is a job without what takes room.
func small(j *workqueue.Job) *workqueue.Job {
	s := *j
	s.Payload, s.Result, s.Attempts, s.Labels, s.Trace = nil, nil, nil, nil, nil
	return &s
}

// serving lists the live workers that know a kind.
func (l *look) serving(q *queueLook, kind string) (sids []string) {
	for sid, w := range q.workers {
		if l.sessions[sid] != nil && w.Knows(kind) {
			sids = append(sids, sid)
		}
	}
	slices.Sort(sids)
	return sids
}

// oldest is the job that waits longest, of those that keep selects and, where there are others, of those of which it is
// known since when; ok is false without one.
func (q *queueLook) oldest(keep func(waiting) bool) (found waiting, n int, ok bool) {
	for _, w := range q.open {
		if !keep(w) {
			continue
		}
		n++
		if !ok || found.since.IsZero() || !w.since.IsZero() && w.since.Before(found.since) {
			found, ok = w, true
		}
	}
	return found, n, ok
}

// kindsOf lists the kinds of the jobs that could be claimed.
func (q *queueLook) kindsOf() []string {
	kinds := map[string]bool{}
	for _, w := range q.open {
		kinds[w.kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}
