package leasectl

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/workqueue"
)

var allStates = []workqueue.State{
	workqueue.StateReady, workqueue.StateScheduled, workqueue.StateRetry, workqueue.StateClaimed,
	workqueue.StateOrphan, workqueue.StateDone, workqueue.StateDead, workqueue.StateCancelled,
}

// selection is which jobs of which queues a verb means.
type selection struct {
	text   string
	states []string
	kind   string

	filter  filter
	queues  []string // that can have such jobs, if named
	named   bool
	limit   int
	limited bool
}

func (s *selection) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.text, "filter", "", "only jobs that match `FILTER`, such as 'state:dead kind:send*' (leasectl help filters)")
	f.StringSliceVar(&s.states, "state", nil, "only jobs in `STATE`[,STATE...]: "+joinStates())
	f.StringVar(&s.kind, "kind", "", "only jobs of `KIND`")
}

// parse makes one filter of all the flags; args may name a queue.
func (s *selection) parse(args []string) (err error) {
	if s.filter, err = parseFilter(s.text); err != nil {
		return err
	}
	if len(s.states) > 0 {
		t := filterTerm{field: "state"}
		for _, name := range s.states {
			if !slices.Contains(allStates, workqueue.State(name)) {
				return usagef("leasectl help states", "--state %q is none of %s", name, joinStates())
			}
			t.states = append(t.states, workqueue.State(name))
		}
		t.testStates()
		s.filter.terms = append(s.filter.terms, t)
	}
	if s.kind != "" {
		kind := s.kind
		s.filter.terms = append(s.filter.terms, filterTerm{field: "kind", exact: []string{kind},
			test: func(j *workqueue.Job, _ time.Time) bool { return j.Kind == kind }})
	}
	s.queues, s.named = s.filter.queues()
	if len(args) > 0 {
		if s.named && !slices.Contains(s.queues, args[0]) {
			return usagef("leave one of them out", "QUEUE is %q, but --filter says queue:%s", args[0], strings.Join(s.queues, ","))
		}
		s.queues, s.named = args[:1], true
	}
	return nil
}

func joinStates() string {
	var names []string
	for _, s := range allStates {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// library is the selection as the library takes it: what it can tell from a record's head is told apart, since all
// else needs the whole record.
func (s selection) library(now time.Time, read *int) workqueue.Filter {
	f := workqueue.Filter{States: s.filter.states(), Read: read}
	if s.limited {
		f.Limit = s.limit
	}
	f.ID, _ = s.filter.id()
	rest := filter{}
	for _, t := range s.filter.terms {
		switch {
		case t.field == "state" && !t.not:
		case t.field == "queue" && !t.not && t.exact != nil:
		case t.field == "kind" && !t.not && len(t.exact) == 1 && f.Kind == "" && t.exact[0] != "":
			f.Kind = t.exact[0]
		default:
			rest.terms = append(rest.terms, t)
		}
	}
	if !rest.empty() {
		f.Match = func(j *workqueue.Job) bool { return rest.matches(j, now) }
	}
	return f
}
