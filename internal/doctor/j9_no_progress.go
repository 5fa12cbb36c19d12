package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/workqueue"
)

var j9NoProgress = &Check{
	Code: "J9", Severity: Warning,
	Means: "a live worker has had a job for longer than --max-run, and than the job's own timeout, without progress: its handler may hang. It has to be looked at there",
	needs: []string{dirSessions, dirQueues},
	one:   "1 job without progress", many: "%d jobs without progress",
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		silent, err := e.silent(ctx)
		for _, j := range silent {
			key, ref := j.queue.keys.Job(j.ID), j.queue.ref(j.ID)
			found = append(found, &Finding{
				Severity: Warning, What: "no progress", Subject: ref,
				Detail: fmt.Sprintf("%s token %s at %s, no sign for %s", ref, j.Token, named(j.Owner), ago(e.look.at.Sub(j.last))),
				Key:    key, Revision: decimal(j.Revision), Token: j.Token.String(), still: map[string]int64{key: j.Revision},
				Advice: "leasectl jobs release " + escape.Shell(ref) + " --break-claim, or work --timeout and --idle-timeout",
			})
		}
		return "", found, err
	},
}

// quiet is a job that is worked on, with the last sign of it.
type quiet struct {
	*workqueue.Job
	queue *queueLook
	last  time.Time
}

// maxNotes is how many notes of progress are read in one request.
const maxNotes = 50

// silent lists the jobs that have given no sign for too long. Only of those that were claimed so long ago is the progress
// read, of several together whatever their queues.
func (e *Exam) silent(ctx context.Context) (silent []quiet, err error) {
	var old []quiet
	for _, q := range e.look.queuesOf() {
		first := len(old)
		for _, j := range q.running {
			if e.tooLong(j, j.ClaimedAt) {
				old = append(old, quiet{j, q, j.ClaimedAt})
			}
		}
		slices.SortFunc(old[first:], func(a, b quiet) int { return cmp.Compare(a.ID, b.ID) })
	}
	for part := range slices.Chunk(old, maxNotes) {
		var gets []clientv3.Op
		for _, j := range part {
			gets = append(gets, clientv3.OpGet(j.queue.keys.Progress(j.ID)))
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
