package doctor

import (
	"context"
	"fmt"
	"slices"
)

// Check is one thing that is looked for.
type Check struct {
	// Code names it: E for etcd, S for sessions, J for jobs, Q for queues, X for elections and locks, C for clocks, K for
	// keys.
	Code string
	// Severity is the worst that it reports.
	Severity Severity
	// Means is what it means when it is reported.
	Means string
	// Fix is what the automatic repair does, or empty.
	Fix string

	// many is the headline of several findings, with %d; without it each has a line of its own.
	one, many string
	// needs are the directories that must have been read: see look.partial.
	needs []string
	// say tells that the note stands in the text, also when all is well.
	say bool
	// run returns what to say when all is well, and the findings.
	run func(context.Context, *Exam) (note string, found []*Finding, err error)
}

// eachQueue makes a check of what is looked for in each queue by itself.
func eachQueue(check func(*Exam, *queueLook) []*Finding) func(context.Context, *Exam) (string, []*Finding, error) {
	return func(_ context.Context, e *Exam) (note string, found []*Finding, err error) {
		for _, q := range e.look.queuesOf() {
			found = append(found, check(e, q)...)
		}
		return "", found, nil
	}
}

// Checks lists all checks, in the order in which they are reported.
func Checks() []*Check {
	return []*Check{
		e1EndpointDown, e2Alarm, e3DatabaseSize, e4NoLeader, e5History, e6Permission, e7HistoryWentBack,
		s1SessionWithoutLease, s2LateRenewals, s3DuplicateIdentity, s4WrongLease,
		j1GoneOwner, j2Undecodable, j3Exceeded, j5LargeValue, j6RetentionOverdue, j7NewerSchema, j8Twice, j9NoProgress,
		q1NoWorker, q2PausedLong, q3OldestAge, q4ConfigUnreadable, q5BadSetting,
		x1NoDispatcher, x2NoCandidates, x3LongHold,
		c1ClockSkew,
		k1ForeignKey, k2Leftover, k3Misnamed, k4KindUnfit,
	}
}

// LeftOut are codes that are not checked, with why.
var LeftOut = map[string]string{
	"J4": "due but unpromoted: impossible by design, since a job has one key for its whole life and its time is a field of its record",
}

// KnownCode tells whether a check has that code.
func KnownCode(code string) bool {
	return slices.ContainsFunc(Checks(), func(c *Check) bool { return c.Code == code })
}

// headline is what is said of n findings.
func (c *Check) headline(found []*Finding) string {
	switch {
	case len(found) == 1 && c.one != "":
		return c.one
	case c.many != "":
		return fmt.Sprintf(c.many, len(found))
	}
	return found[0].What
}
