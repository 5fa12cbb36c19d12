package ready

import "github.com/leasekit/leasekit/internal/job"

// planJob is a claimable job, as the dispatcher sees it.
type planJob struct {
	kind    string
	hash    uint64
	suspect bool   // it may be what ends its workers: one of them at a time
	avoid   string // the session that gave it back: any other is better
}

// planWorker is a worker with room.
type planWorker struct {
	sid     string
	kinds   []string // empty: all
	free    int      // how many jobs more it may hold
	suspect bool     // it holds a suspect already
	hash    uint64
}

func (w *planWorker) knows(kind string) bool { return job.WorkerRecord{Kinds: w.kinds}.Knows(kind) }

// takes tells whether the worker can be given the job.
func (w *planWorker) takes(j planJob) bool {
	return w.free > 0 && !(j.suspect && w.suspect) && w.knows(j.kind)
}

// better tells whether w is a better worker for j than v, of two that can take it.
func (w *planWorker) better(j planJob, v *planWorker) bool {
	switch {
	case (w.sid == j.avoid) != (v.sid == j.avoid):
		return v.sid == j.avoid
	case w.free != v.free:
		return w.free > v.free
	}
	return mix(j.hash^w.hash) > mix(j.hash^v.hash)
}

// plan hands jobs out: each, in the order given, goes to the worker with the most
// room among those that know its kind, and between equals to the one that rendezvous
// hashing prefers, so that two dispatchers in a row decide alike. The result has a
// worker's index for each job, or -1. It is pure; workers is changed.
//
// A job that nobody can take holds up none behind it.
func plan(jobs []planJob, workers []planWorker) []int {
	to := make([]int, len(jobs))
	for i, j := range jobs {
		to[i] = -1
		for k := range workers {
			if w := &workers[k]; w.takes(j) && (to[i] < 0 || w.better(j, &workers[to[i]])) {
				to[i] = k
			}
		}
		if to[i] >= 0 {
			w := &workers[to[i]]
			w.free--
			w.suspect = w.suspect || j.suspect
		}
	}
	return to
}
