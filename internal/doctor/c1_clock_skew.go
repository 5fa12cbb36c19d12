package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// skewLimit is how far clocks may be apart, and how long a write may take from its time stamp to its revision.
const skewLimit = 5 * time.Second

var c1ClockSkew = &Check{
	Code: "C1", Severity: Warning,
	Means: "the clocks of two hosts are apart by more than 5 s. Fences do not depend on clocks, but delays, timeouts and ages do. Seen in time stamps that lie in the future of this host, or that run against etcd's order of writes; without writes of both hosts nothing shows",
	needs: []string{dirSessions},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, s := range e.look.stamps.ahead(e.look.at) {
			found = append(found, skewed(s, "this host"))
		}
		for _, s := range e.look.stamps.apart() {
			found = append(found, skewed(s, s.behind))
		}
		return "", found, nil
	},
}

func skewed(s skew, behind string) *Finding {
	return &Finding{
		Severity: Warning, What: fmt.Sprintf("clock of %s is %s ahead", s.ahead, s.by.Round(time.Second)), Subject: "clock/" + s.ahead,
		Detail: fmt.Sprintf("of %s, at least; seen at revision %d", behind, s.rev), Advice: "synchronise the clocks (NTP)",
	}
}

// stamp is a time by a host's clock, and the revision at which it was written.
type stamp struct {
	rev int64
	at  time.Time
}

// stamps are what each identity has written, which stands for its host.
type stamps map[string][]stamp

// maxStamps bounds what is kept of one identity.
const maxStamps = 4096

func (s stamps) add(who string, rev int64, at time.Time) {
	if rev <= 0 || at.IsZero() || who == "" {
		return
	}
	kept := append(s[who], stamp{rev, at})
	if len(kept) >= 2*maxStamps { // the latest say what is so now
		sortStamps(kept)
		kept = append(kept[:0], kept[len(kept)-maxStamps:]...)
	}
	s[who] = kept
}

func sortStamps(list []stamp) {
	slices.SortFunc(list, func(a, b stamp) int { return cmp.Or(cmp.Compare(a.rev, b.rev), a.at.Compare(b.at)) })
}

// skew is by how much one clock is ahead of another one, at least.
type skew struct {
	ahead, behind string
	by            time.Duration
	rev           int64
}

// ahead lists who has written times that have not come yet. That a write takes its time only makes them look older.
func (s stamps) ahead(now time.Time) (found []skew) {
	for _, who := range slices.Sorted(maps.Keys(s)) {
		worst := skew{ahead: who}
		for _, one := range s[who] {
			if d := one.at.Sub(now); d > worst.by {
				worst.by, worst.rev = d, one.rev
			}
		}
		if worst.by > skewLimit {
			found = append(found, worst)
		}
	}
	return found
}

// apart lists pairs of identities whose times run against the order of revisions. What was written first has a later
// time only where that clock is ahead, or where the other write was stamped long before it was applied, as in an outage.
// The latter shows in the times of one host as well, and passes: so as much is taken off as the worst of one host, and
// it must show at three revisions.
func (s stamps) apart() (found []skew) {
	names := slices.Sorted(maps.Keys(s))
	delay := time.Duration(0)
	for _, who := range names {
		sortStamps(s[who])
		for _, d := range inversions(s[who], s[who]) {
			delay = max(delay, d.by)
		}
	}
	for _, a := range names {
		for _, b := range names {
			if a == b {
				continue
			}
			against := inversions(s[a], s[b])
			if len(against) < 3 {
				continue
			}
			slices.SortFunc(against, func(x, y skew) int { return cmp.Compare(y.by, x.by) })
			third := against[2]
			if third.by -= delay; third.by > skewLimit {
				third.ahead, third.behind = a, b
				found = append(found, third)
			}
		}
	}
	return found
}

// inversions lists, for each revision of b, by how much the latest time that a wrote before is later. Both are sorted.
func inversions(a, b []stamp) (found []skew) {
	var latest time.Time
	i := 0
	for j, one := range b {
		for i < len(a) && a[i].rev < one.rev {
			if a[i].at.After(latest) {
				latest = a[i].at
			}
			i++
		}
		if d := latest.Sub(one.at); !latest.IsZero() && d > 0 && (j == 0 || b[j-1].rev != one.rev) {
			found = append(found, skew{by: d, rev: one.rev})
		}
	}
	return found
}
