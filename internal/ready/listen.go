package ready

import "github.com/leasekit/leasekit/internal/job"

// listening is who waits for changes.
type listening struct {
	listeners map[chan struct{}]struct{}
	watchers  map[string]*watcher // id -> the latest claim of this process
}

// Change is what a mirror shows of a job that this process has claimed.
type Change struct {
	Gone bool
	Rev  int64       // it has happened by then
	Now  *job.Record // what is there, nil when it is gone or cannot be read
}

// watcher is a claim that follows its job.
type watcher struct{ tell func(Change) }

func (x *Index) tell(id string, ch Change) {
	if w := x.watchers[id]; w != nil {
		w.tell(ch)
	}
}

// wake tells the listeners to look again. Called with mu held.
func (x *Index) wake() {
	for ch := range x.listeners {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Listen returns a channel that gets a value after changes, and how to stop.
func (x *Index) Listen() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listeners[ch] = struct{}{}
	return ch, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.listeners, ch)
	}
}

// Follow calls f, with the index locked, for what the index shows of job id now and
// for every change from here on, until stop. The caller's claim made revision rev of a
// job that the index showed, so a job that is not there now has gone since, unless the
// index was emptied.
func (x *Index) Follow(id string, rev int64, f func(Change)) (stop func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := &watcher{tell: f}
	x.watchers[id] = w
	if e := x.jobs[id]; e != nil {
		f(Change{Rev: e.Rev, Now: e.Record})
	} else {
		f(Change{Gone: true, Rev: rev + 1})
	}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.watchers[id] == w { // else a later claim of this process follows the job
			delete(x.watchers, id)
		}
	}
}

// Emptied returns a channel that is closed while no live job is known.
func (x *Index) Emptied() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.empty
}
