package leasectl

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/leasekit/leasekit/workqueue"
)

// filter selects jobs: leasectl help filters explains it to people. The zero value selects all. It knows no etcd and no
// clock.
type filter struct{ terms []filterTerm }

// filterTerm is one condition of a filter.
type filterTerm struct {
	text  string // as it was written
	field string
	not   bool
	test  func(*workqueue.Job, time.Time) bool

	states []workqueue.State // of a term about states
	exact  []string          // of a term about texts, when all of them stand without a wildcard
}

// parseFilter reads terms FIELD:VALUE, all of which must hold. A minus before a term is its opposite. Quotes keep spaces,
// commas, colons and stars as they are. An error is one of usage; it names the term.
func parseFilter(text string) (filter, error) {
	words, err := splitWords(text)
	if err != nil {
		return filter{}, err
	}
	var f filter
	for _, word := range words {
		t, err := parseTerm(word)
		if err != nil {
			return filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// empty tells that the filter selects all, which a verb that changes jobs must not take for a selection.
func (f filter) empty() bool { return len(f.terms) == 0 }

// matches tells whether the filter selects the job, as it is at now. A job from a listing is enough.
func (f filter) matches(j *workqueue.Job, now time.Time) bool {
	for _, t := range f.terms {
		if t.test(j, now) == t.not {
			return false
		}
	}
	return true
}

// states are those that can match, so that other directories need not be read; none means all.
func (f filter) states() []workqueue.State {
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

// never tells that no job can match, since two terms exclude each other.
func (f filter) never() bool {
	asked := slices.ContainsFunc(f.terms, func(t filterTerm) bool { return len(t.states) > 0 && !t.not })
	return asked && len(f.states()) == 0
}

// queues are the queues that can match, where the filter names them; ok is false when any can.
func (f filter) queues() (names []string, ok bool) {
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

// wantsQueue tells whether a job of that queue can match.
func (f filter) wantsQueue(name string) bool {
	j := &workqueue.Job{Queue: name}
	return !slices.ContainsFunc(f.terms, func(t filterTerm) bool { return t.field == "queue" && t.test(j, time.Time{}) == t.not })
}

// id is the one ID that can match, where the filter names it: one get instead of a scan.
func (f filter) id() (id string, ok bool) {
	for _, t := range f.terms {
		if t.field == "id" && !t.not && len(t.exact) == 1 {
			return t.exact[0], true
		}
	}
	return "", false
}

func badTerm(word, format string, args ...any) error {
	return usagef("leasectl help filters", "--filter term %q %s", word, fmt.Sprintf(format, args...))
}

// parseTerm reads one FIELD:VALUE.
func parseTerm(word string) (filterTerm, error) {
	t := filterTerm{text: word}
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
		return nil, usagef("leasectl help filters", "--filter has a quote that is never closed in %q", word.String())
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
