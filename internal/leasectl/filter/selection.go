package filter

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// States are all states of jobs.
var States = []workqueue.State{
	workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateClaimed,
	workqueue.StateOrphan, workqueue.StateDone, workqueue.StateDead, workqueue.StateCancelled,
}

// Selection is which jobs of which queues a verb means.
type Selection struct {
	Text   string
	States []string
	kind   string

	Filter  Filter
	Queues  []string // that can have such jobs, if named
	Named   bool
	Limit   int
	Limited bool
}

// AddFlags declares the flags.
func (s *Selection) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.Text, "filter", "", "only jobs that match `FILTER`, such as 'state:dead kind:send*' (leasectl help filters)")
	f.StringSliceVar(&s.States, "state", nil, "only jobs in `STATE`[,STATE...]: "+JoinStates())
	f.StringVar(&s.kind, "kind", "", "only jobs of `KIND`")
}

// Parse makes one filter of all the flags; args may name a queue.
func (s *Selection) Parse(args []string) (err error) {
	if s.Filter, err = Parse(s.Text); err != nil {
		return err
	}
	if len(s.States) > 0 {
		t := Term{Field: "state"}
		for _, name := range s.States {
			if !slices.Contains(States, workqueue.State(name)) {
				return exit.Usagef("leasectl help states", "--state %q is none of %s", name, JoinStates())
			}
			t.States = append(t.States, workqueue.State(name))
		}
		t.TestStates()
		s.Filter.Terms = append(s.Filter.Terms, t)
	}
	if s.kind != "" {
		kind := s.kind
		s.Filter.Terms = append(s.Filter.Terms, Term{Field: "kind", exact: []string{kind},
			Test: func(j *workqueue.Job, _ time.Time) bool { return j.Kind == kind }})
	}
	s.Queues, s.Named = s.Filter.queues()
	if len(args) > 0 {
		if s.Named && !slices.Contains(s.Queues, args[0]) {
			return exit.Usagef("leave one of them out", "QUEUE is %q, but --filter says queue:%s", args[0], strings.Join(s.Queues, ","))
		}
		s.Queues, s.Named = args[:1], true
	}
	return nil
}

// JoinStates is all of them in a sentence.
func JoinStates() string {
	var names []string
	for _, s := range States {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// Library is the selection as the library takes it: what it can tell from a record's head is told apart, since all
// else needs the whole record.
func (s Selection) Library(now time.Time, read *int) workqueue.Filter {
	f := workqueue.Filter{States: s.Filter.States(), Read: read}
	if s.Limited {
		f.Limit = s.Limit
	}
	f.ID, _ = s.Filter.ID()
	rest := Filter{}
	for _, t := range s.Filter.Terms {
		switch {
		case t.Field == "state" && !t.not:
		case t.Field == "queue" && !t.not && t.exact != nil:
		case t.Field == "kind" && !t.not && len(t.exact) == 1 && f.Kind == "" && t.exact[0] != "":
			f.Kind = t.exact[0]
		default:
			rest.Terms = append(rest.Terms, t)
		}
	}
	if !rest.empty() {
		f.Match = func(j *workqueue.Job) bool { return rest.Matches(j, now) }
	}
	return f
}
