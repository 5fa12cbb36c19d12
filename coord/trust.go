package coord

import "time"

// instant is one reading of both clocks. The monotonic one stops while a machine
// is suspended; the wall clock may jump.
type instant struct {
	mono time.Duration // since some fixed moment of this process
	wall time.Time     // without a monotonic reading
}

// clock reads both clocks at once.
type clock func() instant

// systemClock reads the process's clocks.
func systemClock() clock {
	start := time.Now()
	return func() instant {
		now := time.Now()
		return instant{mono: now.Sub(start), wall: now.Round(0)}
	}
}

// trust is how long we believe in our own lease: less than the server does. It
// is pure; sent is the reading taken just before the last good renewal was sent.
type trust struct {
	sent instant
	ttl  time.Duration
}

// margin is kept back from the lease for clocks that run at different speeds and
// for work that looks at its context a little late.
func (t trust) margin() time.Duration { return max(500*time.Millisecond, t.ttl/10) }

// remaining is what is left of the trust window at now; zero or less means that
// it is over. The window is anchored at the send time, since the server may have
// renewed at any moment after it, and is over at once when the wall clock has
// run ahead of the monotonic one by more than a tenth of the TTL: the machine was
// suspended. A wall clock that jumps back is harmless.
func (t trust) remaining(now instant) time.Duration {
	passed := now.mono - t.sent.mono
	if ahead := now.wall.Sub(t.sent.wall) - passed; ahead > t.ttl/10 { //mutant:trust-wall-clock
		return 0
	}
	return t.ttl - /*mutant:trust-margin*/ t.margin() - passed
}

// renewEvery is the pause between renewals: three may fail before the window
// ends.
func (t trust) renewEvery() time.Duration { return t.ttl / 4 }

// answerTimeout is when a renewal's answer is late enough to try another
// endpoint.
func (t trust) answerTimeout() time.Duration { return max(300*time.Millisecond, t.ttl/10) }

// lookEvery is how often the clocks are compared while nothing else happens.
func (t trust) lookEvery() time.Duration { return max(t.ttl/20, 25*time.Millisecond) }
