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
		states, err := ParseStates("state", s.States)
		if err != nil {
			return err
		}
		t := term{field: "state", states: states}
		t.testStates()
		s.Filter.terms = append(s.Filter.terms, t)
	}
	if s.kind != "" {
		kind := s.kind
		s.Filter.terms = append(s.Filter.terms, term{field: "kind", exact: []string{kind},
			test: func(j *workqueue.Job, _ time.Time) bool { return j.Kind == kind }})
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

// ParseStates reads states that a flag names. Those who ask for claimed jobs mean orphans too.
func ParseStates(flag string, names []string) ([]workqueue.State, error) {
	t := term{}
	for _, name := range names {
		if !slices.Contains(States, workqueue.State(name)) {
			return nil, exit.Usagef("leasectl help states", "--%s %q is none of %s", flag, name, JoinStates())
		}
		t.states = append(t.states, workqueue.State(name))
	}
	t.testStates()
	return t.states, nil
}

// ClaimedBy selects the jobs of some queues that a session has claimed.
func ClaimedBy(session string, queues []string) Selection {
	claimed := term{field: "state", states: []workqueue.State{workqueue.StateClaimed}}
	claimed.testStates()
	own := term{test: func(j *workqueue.Job, _ time.Time) bool { return j.Owner == session }}
	return Selection{Named: true, Queues: queues, Filter: Filter{terms: []term{own, claimed}}}
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
	for _, t := range s.Filter.terms {
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
		f.Match = func(j *workqueue.Job) bool { return rest.Matches(j, now) }
	}
	return f
}
