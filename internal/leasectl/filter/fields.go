package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/workqueue"
)

// filterField is a field that a filter can ask about.
type filterField struct {
	name  string
	parse func(t *term, value string) error
}

// filterFields are all fields but state and label.NAME.
var filterFields = []filterField{
	textField("queue", func(j *workqueue.Job) string { return j.Queue }),
	textField("kind", func(j *workqueue.Job) string { return j.Kind }),
	textField("id", func(j *workqueue.Job) string { return j.ID }),
	{"worker", func(t *term, value string) error { return t.ofWorker(value) }},
	{"error", func(t *term, value string) error {
		t.text1(value, func(j *workqueue.Job) (string, bool) { return LastError(j), true }, true)
		return nil
	}},
	numberField("attempt", func(j *workqueue.Job) int64 { return int64(j.Attempt) }),
	numberField("failures", func(j *workqueue.Job) int64 { return int64(j.Failures) }),
	numberField("losses", func(j *workqueue.Job) int64 { return int64(j.Losses) }),
	numberField("priority", func(j *workqueue.Job) int64 { return int64(j.Priority) }),
	numberField("size", func(j *workqueue.Job) int64 { return int64(j.PayloadSize) }),
	numberField("token", func(j *workqueue.Job) int64 { return int64(j.Token) }),
	numberField("revision", func(j *workqueue.Job) int64 { return j.Revision }),
	sinceField("age", func(j *workqueue.Job) time.Time { return j.EnqueuedAt }),
	sinceField("running", func(j *workqueue.Job) time.Time { return j.ClaimedAt }),
	sinceField("ended", func(j *workqueue.Job) time.Time { return j.FinishedAt }),
}

func fieldNames() string {
	names := []string{"state", "label.NAME"}
	for _, f := range filterFields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// LastError is why the job is over, or why its last attempt ended badly.
func LastError(j *workqueue.Job) string {
	if j.Error != "" || len(j.Attempts) == 0 {
		return j.Error
	}
	return j.Attempts[len(j.Attempts)-1].Error
}

func textField(name string, get func(*workqueue.Job) string) filterField {
	return filterField{name, func(t *term, value string) error {
		t.text1(value, func(j *workqueue.Job) (string, bool) { return get(j), true }, false)
		return nil
	}}
}

// text1 makes t a test of one text against any of the patterns in value.
func (t *term) text1(value string, get func(*workqueue.Job) (string, bool), fold bool) {
	patterns := parsePatterns(value, fold)
	t.exact = exactOf(patterns)
	t.test = func(j *workqueue.Job, _ time.Time) bool {
		text, ok := get(j)
		if fold {
			text = strings.ToLower(text)
		}
		return ok && slices.ContainsFunc(patterns, func(p pattern) bool { return p.match(text) })
	}
}

// ofWorker asks for the owner: by session, or by the identity that the session's ID begins with.
func (t *term) ofWorker(value string) error {
	patterns := parsePatterns(value, false)
	t.test = func(j *workqueue.Job, _ time.Time) bool {
		identity, _, _ := strings.Cut(j.Owner, ".")
		return j.Owner != "" && slices.ContainsFunc(patterns, func(p pattern) bool { return p.match(j.Owner) || p.match(identity) })
	}
	return nil
}

// ofStates asks for states.
func (t *term) ofStates(word, value string) error {
	for _, name := range strings.Split(unquote(value), ",") {
		if !slices.Contains(States, workqueue.State(name)) {
			return badTerm(word, "has the state %q, which is none of %s", name, JoinStates())
		}
		t.states = append(t.states, workqueue.State(name))
	}
	t.testStates()
	return nil
}

// testStates makes t a test of its states. An orphan is claimed, by a session that is gone.
func (t *term) testStates() {
	if slices.Contains(t.states, workqueue.StateClaimed) && !slices.Contains(t.states, workqueue.StateOrphan) {
		t.states = append(t.states, workqueue.StateOrphan)
	}
	states := t.states
	t.test = func(j *workqueue.Job, _ time.Time) bool { return slices.Contains(states, j.State) }
}

func numberField(name string, get func(*workqueue.Job) int64) filterField {
	return filterField{name, func(t *term, value string) error {
		checks, err := parseChecks(t, value, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }, "a whole number, such as %s:3 or %[1]s:>3")
		t.test = func(j *workqueue.Job, _ time.Time) bool { return anyHolds(checks, get(j)) }
		return err
	}}
}

// sinceField asks how long ago something happened. What has not happened matches nothing.
func sinceField(name string, get func(*workqueue.Job) time.Time) filterField {
	return filterField{name, func(t *term, value string) error {
		checks, err := parseChecks(t, value, func(text string) (int64, error) {
			d, err := parseSpan(text)
			return int64(d), err
		}, "a duration behind < or >, such as %s:>1h or %[1]s:<2d")
		for _, c := range checks {
			if err == nil && c.op == "=" {
				err = badTerm(t.text, "needs < or > before the duration, such as %s:>1h", t.field)
			}
		}
		t.test = func(j *workqueue.Job, now time.Time) bool {
			at := get(j)
			return !at.IsZero() && anyHolds(checks, int64(now.Sub(at)))
		}
		return err
	}}
}

// parseSpan reads a duration as Go does, or in days: 2d.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is no number of days", days)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%s is negative", text)
	}
	return d, err
}

// check compares a number.
type check struct {
	op string
	n  int64
}

func (c check) holds(n int64) bool {
	switch c.op {
	case ">":
		return n > c.n
	case ">=":
		return n >= c.n
	case "<":
		return n < c.n
	case "<=":
		return n <= c.n
	}
	return n == c.n
}

func anyHolds(checks []check, n int64) bool {
	return slices.ContainsFunc(checks, func(c check) bool { return c.holds(n) })
}

func parseChecks(t *term, value string, parse func(string) (int64, error), wants string) (checks []check, err error) {
	for _, text := range strings.Split(unquote(value), ",") {
		c := check{op: "="}
		for _, op := range []string{">=", "<=", ">", "<", "="} {
			if rest, ok := strings.CutPrefix(text, op); ok {
				c.op, text = op, rest
				break
			}
		}
		if c.n, err = parse(text); err != nil {
			return nil, badTerm(t.text, "needs "+wants, t.field)
		}
		checks = append(checks, c)
	}
	return checks, nil
}
