package faults

import (
	"sync"
	"time"
)

// Clock is a clock that can be stepped, to be given to coord.SessionConfig.Clock. It
// shows the process's clocks otherwise. Safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	start time.Time
	ahead time.Duration
}

// NewClock returns a clock that is right.
func NewClock() *Clock { return &Clock{start: time.Now()} }

// Read reads both clocks, as coord.SessionConfig.Clock wants it.
func (c *Clock) Read() (mono time.Duration, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Sub(c.start), now.Add(c.ahead)
}

// step moves the wall clock.
func (c *Clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}
