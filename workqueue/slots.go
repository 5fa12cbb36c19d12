package workqueue

import (
	"time"

	"github.com/leasekit/leasekit/internal/ready"
)

// room is how many jobs more may start, and from when on.
func (w *Worker) room() (n int, resume time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(w.cfg.Concurrency,
		2*w.cfg.Concurrency-w.closing) - w.slots //mutant:room-for-results
	if w.cfg.Limit > 0 {
		n = min(n, w.cfg.Limit-w.started)
	}
	return n, w.resume
}

// occupy takes a slot.
func (w *Worker) occupy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots++
	w.started++
}

// vacate frees a slot: nothing of its job runs here any more.
func (w *Worker) vacate(c ready.Candidate) {
	w.q.core.Index.Leave(c)
	w.free(func() { w.slots-- })
}

// returned frees a slot whose handler has returned: the next claim travels with its
// result, in one flight, and does not wait for what becomes of it.
func (w *Worker) returned() { w.free(func() { w.slots--; w.closing++ }) }

// closed is over when etcd has a job's result, or never will have it from here.
func (w *Worker) closed(c ready.Candidate) {
	w.q.core.Index.Leave(c)
	w.free(func() { w.closing-- })
}

// free changes the count of slots, and has the worker look again.
func (w *Worker) free(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.nudge()
}

func (w *Worker) nudge() {
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// missed takes back a start that came to nothing.
func (w *Worker) missed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started--
}

func (w *Worker) limited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg.Limit > 0 && w.started >= w.cfg.Limit
}

// idle tells whether nothing is under way but handlers that were abandoned: those may
// never return, and Run reports them.
func (w *Worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	working := w.slots - w.zombies //mutant:limit-hung
	return working+w.closing == 0
}

// capacity is how many jobs the worker can hold: not those that hung handlers keep
// a slot for, nor more than are left of its limit. 0 tells dispatchers to assign
// nothing.
func (w *Worker) capacity() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.cfg.Concurrency - w.zombies
	if w.cfg.Limit > 0 {
		if w.started >= w.cfg.Limit {
			return 0
		}
		n = min(n, w.slots+w.closing-w.zombies+w.cfg.Limit-w.started)
	}
	return n
}
