package top

import (
	"strings"
	"time"
)

const (
	buckets    = 12
	bucketSpan = 5 * time.Second
)

// rate counts what happened in the last minute. The zero value has counted nothing.
type rate struct {
	counts [buckets]int
	last   int64 // number of the bucket that was counted in last
}

func bucketOf(at time.Time) int64 { return at.UnixNano() / int64(bucketSpan) }

// advance empties the buckets whose time came since the last count.
func (r *rate) advance(at time.Time) {
	now := bucketOf(at)
	for b := max(r.last+1, now-buckets+1); b <= now; b++ {
		r.counts[b%buckets] = 0
	}
	r.last = max(r.last, now)
}

func (r *rate) add(at time.Time, n int) {
	r.advance(at)
	r.counts[r.last%buckets] += n
}

// perSecond is the rate over the last minute, or since it began to be counted.
func (r *rate) perSecond(now, began time.Time) float64 {
	r.advance(now)
	sum := 0
	for _, n := range r.counts {
		sum += n
	}
	window := time.Unix(0, (r.last-buckets+1)*int64(bucketSpan))
	if began.After(window) {
		window = began
	}
	return float64(sum) / max(now.Sub(window), time.Second).Seconds()
}

// bars draws the buckets, the newest at the right; those before the counting began stay empty.
func (r *rate) bars(now, began time.Time) string {
	r.advance(now)
	most := 1
	for _, n := range r.counts {
		most = max(most, n)
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for i := r.last - buckets + 1; i <= r.last; i++ {
		n := r.counts[i%buckets]
		switch {
		case i < bucketOf(began):
			b.WriteRune(' ')
		case n == 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[1+n*(len(levels)-2)/most])
		}
	}
	return b.String()
}
