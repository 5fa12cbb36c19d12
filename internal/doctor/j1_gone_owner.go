package doctor

import (
	"fmt"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/workqueue"
)

var j1GoneOwner = &Check{
	Code: "J1", Severity: Error,
	Means: "a job is claimed by a session that is gone, and nobody takes it over: no live worker knows its kind, or one has room and does not. A job that waits for room, or in a paused queue, is not reported",
	Fix:   "opens the job in its old place, under a new token; one that may be started once is buried",
	needs: []string{dirSessions, dirQueues},
	one:   "1 job claimed by a gone session", many: "%d jobs claimed by gone sessions",
	run: eachQueue(func(e *Exam, q *queueLook) (found []*Finding) {
		if q.config.Paused {
			return nil
		}
		for _, j := range q.gone {
			why := e.look.abandoned(q, j)
			if why == "" {
				continue
			}
			key := q.keys.Job(j.ID)
			f := &Finding{
				Severity: Error, What: "claimed by a gone session", Subject: q.ref(j.ID),
				Detail: fmt.Sprintf("%s token %s (%s)", q.ref(j.ID), j.Token, why),
				Key:    key, Revision: decimal(j.Revision), Token: j.Token.String(), still: map[string]int64{key: j.Revision},
				Plan:   fmt.Sprintf("requeue %s at front, new token", q.ref(j.ID)),
				repair: onJob(q.name, j.ID, j.Revision, admin.BreakClaim),
			}
			if j.AtMostOnce {
				f.Plan = "bury " + q.ref(j.ID) + ", which may be started at most once"
			}
			found = append(found, f)
		}
		return found
	}),
}

// abandoned tells why nobody will take a job over whose owner is gone, or nothing when somebody may.
func (l *look) abandoned(q *queueLook, j *workqueue.Job) string {
	if q.config.Mode == workqueue.ModeDispatch {
		if !l.partial[dirElections] && !l.held(l.elections[dispatcherOf(q.name)]) {
			return "no dispatcher"
		}
	}
	serving := l.serving(q, j.Kind)
	if len(serving) == 0 {
		if j.Kind != "" {
			return "no live worker knows kind " + named(j.Kind)
		}
		return "no live worker"
	}
	for _, w := range q.open { // what goes first may keep them all busy
		if q.ranks[w.id].before(q.ranks[j.ID]) {
			return ""
		}
	}
	for _, sid := range serving {
		// A worker takes one job at a time that may take its process with it.
		if q.workers[sid].Concurrency > q.held[sid] && (j.Losses == 0 || q.tried[sid] == 0) {
			return sid + " has room"
		}
	}
	return ""
}

// dispatcherOf is the name that workqueue gives to the election of a queue's dispatcher.
func dispatcherOf(queue string) string { return "dispatcher:" + queue }
