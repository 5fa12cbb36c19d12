package workqueue

import (
	"sync"
	"time"
)

// slots counts what a worker has under way. Safe for concurrent use.
type slots struct {
	concurrency, limit int
	freed              chan struct{} // a slot was freed

	mu      sync.Mutex
	used    int // by handlers that run or will, zombies included
	closing int // jobs whose handlers have returned, their results on the way
	started int // jobs taken so far, for the limit
	zombies int // abandoned handlers that still run

	trouble int       // claims in a row that ended with an error
	resume  time.Time // no claim before it
}

// room is how many jobs more may start, and from when on.
func (s *slots) room() (n int, resume time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(s.concurrency,
		2*s.concurrency-s.closing) - s.used //mutant:room-for-results
	if s.limit > 0 {
		n = min(n, s.limit-s.started)
	}
	return n, s.resume
}

// occupy takes a slot.
func (s *slots) occupy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	s.started++
}

// returned frees a slot whose handler has returned: the next claim travels with its
// result, in one flight, and does not wait for what becomes of it.
func (s *slots) returned() { s.free(func() { s.used--; s.closing++ }) }

// closed is over when etcd has a job's result, or never will have it from here.
func (s *slots) closed() { s.free(func() { s.closing-- }) }

// vacate frees a slot.
func (s *slots) vacate() { s.free(func() { s.used-- }) }

// hung notes that a handler was abandoned: it keeps its slot.
func (s *slots) hung() { s.free(func() { s.zombies++ }) }

// ended notes that an abandoned handler has returned after all, and frees its slot.
func (s *slots) ended() { s.free(func() { s.zombies--; s.used-- }) }

// left is how many abandoned handlers still run.
func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.zombies
}

// free changes the count of slots, and has the worker look again.
func (s *slots) free(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.nudge()
}

func (s *slots) nudge() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// missed takes back a start that came to nothing.
func (s *slots) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started--
}

func (s *slots) limited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit > 0 && s.started >= s.limit
}

// idle tells whether nothing is under way but handlers that were abandoned: those may
// never return, and Run reports them.
func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	working := s.used - s.zombies //mutant:limit-hung
	return working+s.closing == 0
}

// capacity is how many jobs the worker can hold: not those that hung handlers keep
// a slot for, nor more than are left of its limit. 0 tells dispatchers to assign
// nothing.
func (s *slots) capacity() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.concurrency - s.zombies
	if s.limit > 0 {
		if s.started >= s.limit {
			return 0
		}
		n = min(n, s.used+s.closing-s.zombies+s.limit-s.started)
	}
	return n
}

const (
	// troublePause is the pause after a claim that ended with an error. It doubles up
	// to maxTroublePause, so that an etcd in trouble meets no hot loop.
	troublePause    = 100 * time.Millisecond
	maxTroublePause = 5 * time.Second
)

// report keeps count of claims that end with errors.
func (s *slots) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.trouble = 0
		return
	}
	if now := time.Now(); !now.Before(s.resume) { // else one of many in the same trouble
		s.resume = now.Add(min(troublePause<<min(s.trouble, 6), maxTroublePause))
		s.trouble++
	}
}
