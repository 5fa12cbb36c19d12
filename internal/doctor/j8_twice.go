package doctor

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
)

var j8Twice = &Check{
	Code: "J8", Severity: Error,
	Means: "an id is in more than one of jobs, done and dead, which no transition leaves behind: somebody has put keys by hand",
	needs: []string{dirQueues},
	one:   "1 id in two places", many: "%d ids in two places",
	run: eachQueue(func(_ *Exam, q *queueLook) (found []*Finding) {
		var twice []string
		for id, where := range q.where {
			if bits.OnesCount8(where) > 1 {
				twice = append(twice, id)
			}
		}
		slices.Sort(twice)
		for _, id := range twice {
			keys := placesOf(q.where[id])
			found = append(found, &Finding{
				Severity: Error, What: "in two places", Subject: q.ref(id), Detail: q.ref(id) + " is in " + strings.Join(keys, " and "),
				Advice: "leasectl jobs get " + escape.Shell(q.ref(id)) + " shows one; compare with etcdctl get, and delete the wrong one",
			})
		}
		return found
	}),
}

func placesOf(where uint8) (names []string) {
	all := map[uint8]string{inJobs: "jobs", inDone: "done", inDead: "dead"}
	for _, bit := range slices.Sorted(maps.Keys(all)) {
		if where&bit != 0 {
			names = append(names, all[bit])
		}
	}
	return names
}
