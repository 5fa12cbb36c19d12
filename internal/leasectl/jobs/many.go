package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Many is which jobs of one queue a repair is to be done to. What stands in no flag selects nothing: somebody who
// forgets a flag must not hit the whole queue.
type Many struct {
	filter.Selection
	Queue string
	All   bool
}

func (m *Many) addFlags(cmd *cobra.Command) {
	m.Selection.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&m.Queue, "queue", "", "many jobs of `QUEUE`, with --state, --filter or --all")
	f.BoolVar(&m.All, "all", false, "all jobs of the queue that this can be done to")
}

// asked tells that many jobs are meant.
func (m *Many) asked(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"queue", "all", "state", "filter", "kind"}, cmd.Flags().Changed)
}

func (m *Many) parse(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return exit.Usagef("one of them", "%s is one job, and the flags select many", args[0])
	case cmd.Flags().Changed("revision"):
		return exit.Usagef("leave it out", "--revision is of one job: each of many is guarded by the revision that the listing shows")
	case m.Queue == "":
		return exit.Usagef("--queue QUEUE --state STATE", "--queue is missing: many jobs are those of one queue")
	}
	if err := m.Selection.Parse([]string{m.Queue}); err != nil {
		return err
	}
	selects := m.Filter.Selects()
	switch {
	case selects && m.All:
		return exit.Usagef("one of them", "--all is all jobs, and --state, --filter and --kind select some")
	case !selects && !m.All:
		return exit.Usagef("--queue "+escape.Shell(m.Queue)+" --state STATE, or --all", "nothing selects the jobs of %s", m.Queue)
	}
	return nil
}

// Found is what a selection found, at the revisions that the action is guarded by.
type Found struct {
	jobs    []foundJob
	samples []string
	rev     int64 // of the store when the listing began
	counts  map[workqueue.State]int
	left    map[workqueue.State]int // that match, and to which it cannot be done
	severe  bool
}

// Len is how many there are.
func (f Found) Len() int { return len(f.jobs) }

// Text is how many jobs there are in which states: "1180 ready + 2 dead jobs".
func (f Found) Text() string { return countText(f.counts) }

// Left is Text of those that match and to which it cannot be done, empty without any.
func (f Found) Left() string {
	if len(f.left) == 0 {
		return ""
	}
	return countText(f.left)
}

// About shows some of them.
func (f Found) About() string {
	text := strings.Join(f.samples, ", ")
	if more := len(f.jobs) - len(f.samples); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

type foundJob struct {
	id  string
	rev int64
}

// samplesShown is how many of the jobs a question shows, beside the first of each state.
const samplesShown = 3

// Find lists the jobs once; what is counted, shown and acted on is that.
func Find(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, r Repair, m Many) (Found, error) {
	f := Found{counts: map[workqueue.State]int{}, left: map[workqueue.State]int{}}
	store := c.Store()
	bounded, cancel := a.Bounded(ctx)
	defer cancel()
	at, err := store.Get(bounded, store.Keys().Queue(m.Queue).Config())
	if err != nil {
		return f, err
	}
	f.rev = at.Header.Revision
	if m.Filter.Never() {
		return f, nil
	}
	place := map[string]int{}
	for j, err := range q.List(ctx, m.Library(time.Now(), nil)) {
		switch {
		case cli.Unreadable(err):
			a.Notef("warning: %s", exit.Text(err))
		case err != nil:
			return f, fmt.Errorf("list jobs: %w", err)
		case !a.Usable("id", j.ID): // nothing can be done to it, and it holds up nothing else
		case !r.Able(j) || r.Spare != nil && r.Spare(j):
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
		return f, a.NoteNewQueue(ctx, c, m.Queue)
	}
	return f, nil
}

// sampleOf is one job in a line that shows what is about to be acted on.
func sampleOf(j *workqueue.Job) string {
	var about []string
	if j.Kind != "" {
		about = append(about, j.Kind)
	}
	about = append(about, standing(j), strconv.Itoa(j.Attempt)+"/"+strconv.Itoa(MaxAttempts(j)))
	if why := filter.LastError(j); why != "" {
		about = append(about, strconv.Quote(shortened(escape.Text(output.LastLine(why)), 60)))
	}
	return cli.JobRef{Queue: j.Queue, ID: j.ID}.Text() + " (" + strings.Join(about, ", ") + ")"
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
	for _, s := range filter.States {
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
func (f Found) say(a *cli.App, c *connect.Conn, m Many) {
	line := fmt.Sprintf("%s of queue %s %s in %s at rev %d", f.Text(), m.Queue, matches(len(f.jobs)), c.Where(), f.rev)
	if len(f.jobs) > 0 {
		line += ": " + f.About()
	}
	a.Notef("%s", line)
	if left := f.Left(); left != "" {
		a.Notef("left alone: %s", left)
	}
}

func matches(n int) string {
	if n == 1 {
		return "matches"
	}
	return "match"
}
