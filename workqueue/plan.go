package workqueue

// planJob is a claimable job, as the dispatcher sees it.
type planJob struct {
	kind    string
	hash    uint64
	suspect bool // it may be what ends its workers: one of them at a time
}

// planWorker is a worker with room.
type planWorker struct {
	sid     string
	kinds   []string // empty: all
	free    int      // how many jobs more it may hold
	suspect bool     // it holds a suspect already
	hash    uint64
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
		best := -1
		for k := range workers {
			w := &workers[k]
			if w.free <= 0 || j.suspect && w.suspect || !(workerRecord{Kinds: w.kinds}).knows(j.kind) {
				continue
			}
			if best < 0 || w.free > workers[best].free ||
				w.free == workers[best].free && mix(j.hash^w.hash) > mix(j.hash^workers[best].hash) {
				best = k
			}
		}
		to[i] = best
		if best >= 0 {
			workers[best].free--
			workers[best].suspect = workers[best].suspect || j.suspect
		}
	}
	return to
}
