package queue

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/leasekit/leasekit/internal/job"
)

// Delay is the backoff with fresh dice, drawn here so that transition is pure.
func (q *Core) Delay() func(n int) time.Duration {
	b, dice := q.backoff(), rand.Float64()
	return func(n int) time.Duration { return b.After(n, dice) }
}

// kept is how much a process keeps of what is done.
type kept struct {
	age         time.Duration
	jobs, bytes int
}

// keep is what a process keeps whose own settings are these, where the queue's config
// says set: whichever is less.
func keep(own, set job.Settings) kept {
	age := /*mutant:settings-lesser*/ lesser(own.Retention, set.Retention, time.Hour)
	return kept{
		age:   age,
		jobs:  lesser(own.RetainJobs, set.RetainJobs, 10_000),
		bytes: lesser(own.RetainBytes, set.RetainBytes, 64<<20),
	}
}

// lesser is the less of two bounds, of which 0 says nothing.
func lesser[T time.Duration | int](own, set, otherwise T) T {
	if own == 0 || set == 0 {
		return cmp.Or(own, set, otherwise)
	}
	return min(own, set)
}

// keeps is what this process keeps now.
func (q *Core) keeps() kept { return keep(q.own, q.Index.Settings()) }

// backoff is the pause between attempts now.
func (q *Core) backoff() job.Backoff {
	if set := q.Index.Settings().Backoff; set != (job.Backoff{}) {
		return set
	}
	return q.own.Backoff
}
