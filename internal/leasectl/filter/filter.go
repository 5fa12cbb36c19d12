// Package filter selects jobs, as --filter and its kin ask for them.
package filter

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// Filter selects jobs: leasectl help filters explains it to people. The zero value selects all. It knows no etcd and no
// clock.
type Filter struct{ terms []term }

// term is one condition of a filter.
type term struct {
	text  string // as it was written
	field string
	not   bool
	test  func(*workqueue.Job, time.Time) bool

	states []workqueue.State // of a term about states
	exact  []string          // of a term about texts, when all of them stand without a wildcard
}

// Parse reads terms FIELD:VALUE, all of which must hold. A minus before a term is its opposite. Quotes keep spaces,
// commas, colons and stars as they are. An error is one of usage; it names the term.
func Parse(text string) (Filter, error) {
	words, err := splitWords(text)
	if err != nil {
		return Filter{}, err
	}
	var f Filter
	for _, word := range words {
		t, err := parseTerm(word)
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// Selects tells that the filter asks for more than queues.
func (f Filter) Selects() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.field != "queue" })
}

// empty tells that the filter selects all, which a verb that changes jobs must not take for a selection.
func (f Filter) empty() bool { return len(f.terms) == 0 }

// Matches tells whether the filter selects the job, as it is at now. A job from a listing is enough.
func (f Filter) Matches(j *workqueue.Job, now time.Time) bool {
	for _, t := range f.terms {
		if t.test(j, now) == t.not {
			return false
		}
	}
	return true
}

// States are those that can match, so that other directories need not be read; none means all.
func (f Filter) States() []workqueue.State {
	var left []workqueue.State
	for _, t := range f.terms {
		switch {
		case len(t.states) == 0 || t.not:
		case left == nil:
			left = slices.Clone(t.states)
		default:
			left = slices.DeleteFunc(left, func(s workqueue.State) bool { return !slices.Contains(t.states, s) })
		}
	}
	return left
}

// Never tells that no job can match, since two terms exclude each other.
func (f Filter) Never() bool {
	asked := slices.ContainsFunc(f.terms, func(t term) bool { return len(t.states) > 0 && !t.not })
	return asked && len(f.States()) == 0
}

// queues are the queues that can match, where the filter names them; ok is false when any can.
func (f Filter) queues() (names []string, ok bool) {
	for _, t := range f.terms {
		switch {
		case t.field != "queue" || t.exact == nil || t.not:
		case !ok:
			names, ok = slices.Clone(t.exact), true
		default:
			names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(t.exact, n) })
		}
	}
	return names, ok
}

// WantsQueue tells whether a job of that queue can match.
func (f Filter) WantsQueue(name string) bool {
	j := &workqueue.Job{Queue: name}
	return !slices.ContainsFunc(f.terms, func(t term) bool { return t.field == "queue" && t.test(j, time.Time{}) == t.not })
}

// ID is the one ID that can match, where the filter names it: one get instead of a scan.
func (f Filter) ID() (id string, ok bool) {
	for _, t := range f.terms {
		if t.field == "id" && !t.not && len(t.exact) == 1 {
			return t.exact[0], true
		}
	}
	return "", false
}

func badTerm(word, format string, args ...any) error {
	return exit.Usagef("leasectl help filters", "--filter term %q %s", word, fmt.Sprintf(format, args...))
}

// parseTerm reads one FIELD:VALUE.
func parseTerm(word string) (term, error) {
	t := term{text: word}
	rest := word
	if after, ok := strings.CutPrefix(word, "-"); ok {
		t.not, rest = true, after
	}
	colon := indexPlain(rest, ':')
	if colon < 0 {
		return t, badTerm(word, "is not FIELD:VALUE, such as state:dead or kind:send*")
	}
	t.field = unquote(rest[:colon])
	value := rest[colon+1:]
	if value == "" {
		return t, badTerm(word, "has no value behind the colon")
	}
	name, isLabel := strings.CutPrefix(t.field, "label.")
	switch {
	case isLabel && name != "":
		t.text1(value, func(j *workqueue.Job) (string, bool) { v, ok := j.Labels[name]; return v, ok }, false)
		return t, nil
	case t.field == "state":
		return t, t.ofStates(word, value)
	}
	for _, field := range filterFields {
		if field.name == t.field {
			return t, field.parse(&t, value)
		}
	}
	return t, badTerm(word, "has the field %q, which is none of %s", t.field, fieldNames())
}

// splitWords splits at spaces outside of quotes.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	quoted := scan(text, func(r rune, plain bool) {
		if plain && unicode.IsSpace(r) {
			end()
			return
		}
		word.WriteRune(r)
	})
	if quoted {
		return nil, exit.Usagef("leasectl help filters", "--filter has a quote that is never closed in %q", word.String())
	}
	end()
	return words, nil
}

// scan calls f with each rune and whether it stands outside of quotes; a quote itself does not. It reports whether the
// text ends within quotes.
func scan(text string, f func(r rune, plain bool)) (quoted bool) {
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
			f(r, false)
		case r == '\\' && quoted:
			escaped = true
			f(r, false)
		case r == '"':
			quoted = !quoted
			f(r, false)
		default:
			f(r, !quoted)
		}
	}
	return quoted
}

// indexPlain is the place of the first want outside of quotes, or -1.
func indexPlain(text string, want rune) int {
	at, i := -1, 0
	scan(text, func(r rune, plain bool) {
		if at < 0 && plain && r == want {
			at = i
		}
		i += len(string(r))
	})
	return at
}

// unquote takes the quotes away.
func unquote(text string) string {
	var b strings.Builder
	escaped := false
	for _, r := range text {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '"':
			continue
		}
		escaped = false
		b.WriteRune(r)
	}
	return b.String()
}
