package ready

import (
	"slices"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// deathWindow is how far back session ends are remembered: orphans can wait long
// for somebody who has a free slot.
const deathWindow = 10 * time.Minute

// death is the end of a session, as the mirror showed it.
type death struct {
	sid string
	at  time.Time
	of  int // sessions that were known before it
}

func (x *Index) died(sid string, of int) {
	now := x.now()
	for len(x.deaths) > 0 && now.Sub(x.deaths[0].at) > deathWindow {
		x.deaths = x.deaths[1:]
	}
	x.deaths = append(x.deaths, death{sid, now, of})
}

// inMassLoss tells whether a session ended among many: three or more, and half of all,
// within one ttl. Then the network, etcd or a node failed, and no job is to blame.
func (x *Index) inMassLoss(sid string, ttl time.Duration) bool {
	for _, d := range x.deaths {
		if d.sid == sid {
			return isCut(x.deaths, d.at, ttl)
		}
	}
	return false
}

// isCut looks for a window of one ttl around at in which sessions ended in numbers.
func isCut(deaths []death, at time.Time, ttl time.Duration) bool {
	end := 0
	for i, first := range deaths {
		if first.at.After(at) {
			return false
		}
		for end < len(deaths) && deaths[end].at.Sub(first.at) <= ttl {
			end++
		}
		if n := end - i; at.Sub(first.at) <= ttl && n >= 3 && 2*n >= first.of {
			return true
		}
	}
	return false
}

// forgive takes back losses that were counted before it showed that their owners
// went in a cut: whoever meets the first orphans of one cannot know yet.
func (x *Index) forgive(r *job.Record, ttl time.Duration) *job.Record {
	left := r.Losses
	for i := len(r.Attempts) - 1; i >= 0 && left > 0; i-- {
		a := r.Attempts[i]
		if !a.Counted {
			continue
		}
		left--
		if !x.inMassLoss(a.Owner, ttl) {
			continue
		}
		c := *r
		c.Attempts = slices.Clone(r.Attempts)
		c.Attempts[i].Counted = false
		c.Losses--
		r = &c
	}
	return r
}
