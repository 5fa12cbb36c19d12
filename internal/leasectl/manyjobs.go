package leasectl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

// manyJobs is which jobs of one queue a repair is to be done to. What stands in no flag selects nothing: somebody who
// forgets a flag must not hit the whole queue.
type manyJobs struct {
	selection
	queue string
	all   bool
}

func (m *manyJobs) addFlags(cmd *cobra.Command) {
	m.selection.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&m.queue, "queue", "", "many jobs of `QUEUE`, with --state, --filter or --all")
	f.BoolVar(&m.all, "all", false, "all jobs of the queue that this can be done to")
}

// asked tells that many jobs are meant.
func (m *manyJobs) asked(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"queue", "all", "state", "filter", "kind"}, cmd.Flags().Changed)
}

func (m *manyJobs) parse(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("one of them", "%s is one job, and the flags select many", args[0])
	case cmd.Flags().Changed("revision"):
		return usagef("leave it out", "--revision is of one job: each of many is guarded by the revision that the listing shows")
	case m.queue == "":
		return usagef("--queue QUEUE --state STATE", "--queue is missing: many jobs are those of one queue")
	}
	if err := m.selection.parse([]string{m.queue}); err != nil {
		return err
	}
	selects := slices.ContainsFunc(m.filter.terms, func(t filterTerm) bool { return t.field != "queue" })
	switch {
	case selects && m.all:
		return usagef("one of them", "--all is all jobs, and --state, --filter and --kind select some")
	case !selects && !m.all:
		return usagef("--queue "+escape.Shell(m.queue)+" --state STATE, or --all", "nothing selects the jobs of %s", m.queue)
	}
	return nil
}

// found is what a selection found, at the revisions that the action is guarded by.
type found struct {
	jobs    []foundJob
	samples []string
	rev     int64 // of the store when the listing began
	counts  map[workqueue.State]int
	left    map[workqueue.State]int // that match, and to which it cannot be done
	severe  bool
}

type foundJob struct {
	id  string
	rev int64
}

// samplesShown is how many of the jobs a question shows, beside the first of each state.
const samplesShown = 3

// findMany lists the jobs once; what is counted, shown and acted on is that.
func findMany(ctx context.Context, a *app, c *connection, q *workqueue.Queue, r repair, m manyJobs) (found, error) {
	f := found{counts: map[workqueue.State]int{}, left: map[workqueue.State]int{}}
	store, err := etcdkv.NewStore(c.Client, c.root, nil)
	if err != nil {
		return f, err
	}
	bounded, cancel := a.bounded(ctx)
	defer cancel()
	at, err := store.Get(bounded, store.Keys().Queue(m.queue).Config())
	if err != nil {
		return f, err
	}
	f.rev = at.Header.Revision
	if m.filter.never() {
		return f, nil
	}
	place := map[string]int{}
	for j, err := range q.List(ctx, m.library(time.Now(), nil)) {
		switch {
		case unreadable(err):
			a.notef("warning: %s", errorText(err))
		case err != nil:
			return f, fmt.Errorf("list jobs: %w", err)
		case !a.usable("id", j.ID): // nothing can be done to it, and it holds up nothing else
		case !r.able(j) || r.spare != nil && r.spare(j):
			f.left[j.State]++
		default:
			i, twice := place[j.ID] // it moved from one directory to another while they were read
			if twice {
				f.jobs[i].rev = max(f.jobs[i].rev, j.Revision)
				continue
			}
			place[j.ID] = len(f.jobs)
			f.jobs = append(f.jobs, foundJob{j.ID, j.Revision})
			f.severe = f.severe || r.severe != nil && r.severe(j)
			if f.counts[j.State]++; len(f.samples) < samplesShown || f.counts[j.State] == 1 {
				f.samples = append(f.samples, sampleOf(j))
			}
		}
	}
	if len(f.jobs) == 0 && len(f.left) == 0 {
		return f, a.noteNewQueue(ctx, c, m.queue)
	}
	return f, nil
}

// sampleOf is one job in a line that shows what is about to be acted on.
func sampleOf(j *workqueue.Job) string {
	var about []string
	if j.Kind != "" {
		about = append(about, j.Kind)
	}
	about = append(about, standing(j), strconv.Itoa(j.Attempt)+"/"+strconv.Itoa(maxAttempts(j)))
	if why := lastError(j); why != "" {
		about = append(about, strconv.Quote(shortened(escape.Text(lastLine(why)), 60)))
	}
	return jobRef{j.Queue, j.ID}.text() + " (" + strings.Join(about, ", ") + ")"
}

// shortened keeps the beginning of a text.
func shortened(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n]) + "..."
}

// countText is how many jobs there are in which states: "1180 ready + 2 dead jobs".
func countText(counts map[workqueue.State]int) string {
	var parts []string
	total := 0
	for _, s := range allStates {
		if n := counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
			total += n
		}
	}
	switch {
	case total == 0:
		return "0 jobs"
	case total == 1:
		return parts[0] + " job"
	}
	return strings.Join(parts, " + ") + " jobs"
}

// say tells what was found, and where.
func (f found) say(a *app, c *connection, m manyJobs) {
	line := fmt.Sprintf("%s of queue %s %s in %s at rev %d", countText(f.counts), m.queue, matches(len(f.jobs)), c.where(), f.rev)
	if len(f.jobs) > 0 {
		line += ": " + strings.Join(f.samples, ", ")
	}
	if more := len(f.jobs) - len(f.samples); more > 0 {
		line += fmt.Sprintf(", and %d more", more)
	}
	a.notef("%s", line)
	if len(f.left) > 0 {
		a.notef("left alone: %s", countText(f.left))
	}
}

func matches(n int) string {
	if n == 1 {
		return "matches"
	}
	return "match"
}
