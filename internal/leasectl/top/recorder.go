package top

import (
	"slices"
	"sync"
	"time"
)

const (
	// keptEvents is how many events are kept for the screen, keptJobs how many jobs that run: nothing that happens while
	// nobody takes the news makes them grow.
	keptEvents = 100
	keptJobs   = 5000
)

// Recorder gathers what becomes known until it is taken, in bounded memory. The zero value is ready. It can be used by
// several goroutines.
type Recorder struct {
	mu      sync.Mutex
	news    News
	fresh   bool
	running map[[2]string]Job // by queue and ID
	moved   bool              // running has changed
}

// Happened records events, in their order.
func (r *Recorder) Happened(events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.news.Rev = max(r.news.Rev, e.Revision)
		if e.Type == "done" {
			if r.news.Done == nil {
				r.news.Done = map[string]int{}
			}
			r.news.Done[e.Queue]++
		}
		r.follow(e)
	}
	r.news.Events = lastOf(append(r.news.Events, events...), keptEvents)
	r.fresh = r.fresh || len(events) > 0
}

func lastOf(events []Event, n int) []Event {
	if len(events) <= n {
		return events
	}
	return slices.Clone(events[len(events)-n:])
}

// follow keeps who runs what.
func (r *Recorder) follow(e Event) {
	if e.ID == "" {
		return
	}
	job := [2]string{e.Queue, e.ID}
	switch e.Type {
	case "claimed", "reclaimed":
		r.keep(Job{Queue: e.Queue, ID: e.ID, Kind: e.Kind, Owner: e.Session, Claimed: e.Time})
	case "progress", "edited", "changed", "FENCED", "unreadable": // it runs on
	default:
		if _, known := r.running[job]; known {
			delete(r.running, job)
			r.moved = true
		}
	}
}

func (r *Recorder) keep(j Job) {
	if r.running == nil {
		r.running = map[[2]string]Job{}
	}
	job := [2]string{j.Queue, j.ID}
	if _, known := r.running[job]; known || len(r.running) < keptJobs {
		r.running[job], r.moved = j, true
	}
}

// Runs records the jobs that run now, in place of those that were known to.
func (r *Recorder) Runs(jobs []Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.moved, r.fresh = nil, true, true
	for _, j := range jobs {
		r.keep(j)
	}
}

// Looked records a look that succeeded.
func (r *Recorder) Looked(l Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Look, r.news.Blind, r.fresh = &l, "", true
	r.news.Rev = max(r.news.Rev, l.Revision)
}

// Blind records why a look failed.
func (r *Recorder) Blind(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Blind, r.fresh = why, true
}

// Watching records that the watch broke, and why, or with an empty text that it goes on.
func (r *Recorder) Watching(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = r.fresh || r.news.Unseen != why
	r.news.Unseen = why
}

// Missed records that some of what happened was not seen.
func (r *Recorder) Missed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.Gap, r.fresh = true, true
}

// Take returns what became known since the last Take; fresh tells whether anything did.
func (r *Recorder) Take(now time.Time) (news News, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	news, fresh = r.news, r.fresh
	news.Now = now
	if r.moved {
		news.Running = longest(r.running)
	}
	r.news = News{Blind: news.Blind, Unseen: news.Unseen}
	r.fresh, r.moved = false, false
	return news, fresh
}

// longest is, by session, the job that runs longest.
func longest(running map[[2]string]Job) map[string]Job {
	by := map[string]Job{}
	for _, j := range running {
		other, known := by[j.Owner]
		if !known || j.Claimed.Before(other.Claimed) || j.Claimed.Equal(other.Claimed) && j.ID < other.ID {
			by[j.Owner] = j
		}
	}
	return by
}
