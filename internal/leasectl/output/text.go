package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// LastLine is the last line of a text that is not blank: of a trace of calls the one that says what went wrong.
func LastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// Since is the age of what happened at a time, nothing when it has not.
func Since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return Age(time.Since(at))
}

// Ago is since, for a sentence.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	return Age(now.Sub(at)) + " ago"
}

// TookBetween is how long something took, nothing where an end of it is not known.
func TookBetween(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return Took(to.Sub(from))
}

// Labels is labels in one cell, without spaces between them.
func Labels(labels map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, ",")
}

// Age is a duration as people read it: one unit, two where the first is small.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// TimeOrNil is a time as JSON leaves it out.
func TimeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// SinceOrNil is Since, nothing without a time.
func SinceOrNil(t *time.Time) string {
	if t == nil {
		return ""
	}
	return Since(*t)
}

// Took is how long something took: finer than an age where it was short.
func Took(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return Age(d)
}

// YesNo is yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Why is a reason behind a sentence, nothing without one.
func Why(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", why)
}

// Count is a number of things in words: 1 job, 2 jobs.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Told is the error of telling what has been done: whoever reads it must not take it for undone.
func Told(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s, but not told: %w", what, err)
	}
	return nil
}
