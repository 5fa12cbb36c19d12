package job

import (
	"fmt"
	"time"
)

// maxBeside is more than any payload beside a record has.
const maxBeside = 1 << 30

// eachCount hands on the counts of a record, with the largest that each can be, until
// visit returns false.
func (r *Record) eachCount(visit func(name string, n *int, most int64) bool) bool {
	ok := visit("payload_beside", &r.Beside, maxBeside) &&
		visit("max_attempts", &r.MaxAttempts, maxCount) && visit("max_losses", &r.MaxLosses, maxCount) &&
		visit("attempt", &r.Attempt, maxCount) && visit("failures", &r.Failures, maxCount) && visit("losses", &r.Losses, maxCount) &&
		visit("attempts_total", &r.LogTotal, maxCount)
	for i := range r.Attempts {
		a := &r.Attempts[i]
		ok = ok && visit("attempts.attempt", &a.Attempt, maxCount) && visit("attempts.repeated", &a.Repeated, maxCount)
	}
	return ok
}

func within(n, most int64) bool { return n >= 0 && n <= most }

const maxTimeoutMS = int64(MaxTimeout / time.Millisecond)

// checkNumbers refuses what no transition writes: sums of it would overflow, and a job
// might be tried for ever.
func (r *Record) checkNumbers() (err error) {
	r.eachCount(func(name string, n *int, most int64) bool {
		if !within(int64(*n), most) {
			err = fmt.Errorf("%s is %d", name, *n)
		}
		return err == nil
	})
	if err == nil && !within(r.TimeoutMS, maxTimeoutMS) {
		err = fmt.Errorf("timeout_ms is %d", r.TimeoutMS)
	}
	return err
}

// mendNumbers makes those 0 that checkNumbers refuses.
func (r *Record) mendNumbers() {
	r.eachCount(func(_ string, n *int, most int64) bool {
		if !within(int64(*n), most) {
			*n = 0
		}
		return true
	})
	if !within(r.TimeoutMS, maxTimeoutMS) {
		r.TimeoutMS = 0
	}
}

// oneMore is the count that follows n. It ends where records may not go.
func oneMore(n int) int {
	if int64(n) >= maxCount {
		return n
	}
	return n + 1
}
