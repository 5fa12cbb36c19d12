package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

var j9NoProgress = &Check{
	Code: "J9", Severity: Warning,
	Means: "a live worker has had a job for longer than --max-run, and than the job's own timeout, without progress: its handler may hang. It has to be looked at there",
	needs: []string{dirSessions, dirQueues},
	one:   "1 job without progress", many: "%d jobs without progress",
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, q := range e.look.queuesOf() {
			seen, err := e.lastSigns(ctx, q)
			if err != nil {
				return "", nil, err
			}
			for _, j := range seen {
				key := q.keys.Job(j.ID)
				found = append(found, &Finding{
					Severity: Warning, What: "no progress", Subject: q.ref(j.ID),
					Detail: fmt.Sprintf("%s token %s at %s, no sign for %s", q.ref(j.ID), j.Token, j.Owner, ago(e.look.at.Sub(j.last))),
					Key:    key, Revision: decimal(j.Revision), Token: j.Token.String(), still: map[string]int64{key: j.Revision},
					Advice: "leasectl jobs release " + escape.Shell(q.ref(j.ID)) + " --break-claim, or work --timeout and --idle-timeout",
				})
			}
		}
		return "", found, nil
	},
}

// quiet is a job that is worked on, with the last sign of it.
type quiet struct {
	*workqueue.Job
	last time.Time
}

// maxNotes is how many notes of progress are read in one request.
const maxNotes = 50

// lastSigns lists the jobs of a queue that have given no sign for too long. Only of those that were claimed so long ago
// is the progress read.
func (e *Exam) lastSigns(ctx context.Context, q *queueLook) (silent []quiet, err error) {
	var old []quiet
	for _, j := range q.running {
		if e.tooLong(j, j.ClaimedAt) {
			old = append(old, quiet{j, j.ClaimedAt})
		}
	}
	slices.SortFunc(old, func(a, b quiet) int { return cmp.Compare(a.ID, b.ID) })
	for part := range slices.Chunk(old, maxNotes) {
		var gets []clientv3.Op
		for _, j := range part {
			gets = append(gets, clientv3.OpGet(q.keys.Progress(j.ID)))
		}
		resp, err := e.store.Read(ctx, gets...)
		if err != nil {
			return nil, err
		}
		for i, j := range part {
			for _, kv := range resp.Responses[i].GetResponseRange().Kvs {
				var note struct {
					At time.Time `json:"at"`
				}
				if json.Unmarshal(kv.Value, &note) == nil && note.At.After(j.last) {
					j.last = note.At
				}
			}
			if e.tooLong(j.Job, j.last) {
				silent = append(silent, j)
			}
		}
	}
	return silent, nil
}

// tooLong tells whether a job may be asked about when its last sign was then.
func (e *Exam) tooLong(j *workqueue.Job, last time.Time) bool {
	return !last.IsZero() && e.look.at.Sub(last) > max(e.opts.MaxRun, j.Timeout)
}
