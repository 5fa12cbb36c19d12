package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsDescribe(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "describe QUEUE/ID",
		Short: "Show one job for people: state, claim, payload, attempts, and what can be done next",
		Long: `Show one job for people: where it stands and why, who has it, what it carries, what
its attempts came to, and the commands that fit. For programs, -o json is that of
leasectl jobs get.`,
		Example: `  leasectl jobs describe mail/welcome-7`,
		Args:    cli.Takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			format, err := a.Format(output.DescribeFormats...)
			if err != nil {
				return err
			}
			return a.WithQueue(cmd.Context(), ref.Queue, func(c *connect.Conn, q *workqueue.Queue) error {
				j, err := Get(cmd.Context(), a, q, ref)
				if err != nil {
					return err
				}
				refusal, err := readRefusal(cmd.Context(), a, c, ref)
				if err != nil {
					return err
				}
				return output.PrintSheet(a.Out, format, detailOf(j), jobSheet(j, refusal, time.Now(), !output.IsTerminal(a.Out)))
			})
		},
	}
}

// readRefusal reads the last late write for a job that was refused, nil without one.
func readRefusal(ctx context.Context, a *cli.App, c *connect.Conn, ref cli.JobRef) (*job.Refusal, error) {
	store := c.Store()
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	key := store.Keys().Queue(ref.Queue).Refused(ref.ID)
	resp, err := store.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	_, r, ok := job.RefusalIn(store.Keys(), resp.Kvs[0])
	if !ok {
		return nil, nil // evidence that cannot be read is none
	}
	return &r, nil
}

// jobSheet describes a job; whole leaves nothing of what it carries out.
func jobSheet(j *workqueue.Job, refusal *job.Refusal, now time.Time, whole bool) *output.Sheet {
	most := previewBytes
	if whole {
		most = math.MaxInt
	}
	s := &output.Sheet{}
	s.Line("Job", "%s    kind %s    priority %d    created %s", cli.TextOf(j), cmp.Or(j.Kind, "-"), j.Priority, output.Ago(j.EnqueuedAt, now))
	s.Line("State", "%s", stateText(j, now))
	if j.Owner != "" {
		s.Line("Claim", "token %s    attempt %d (%d of %d failures)    claimed %s by %s",
			j.Token, j.Attempt, j.Failures, MaxAttempts(j), output.Ago(j.ClaimedAt, now), j.Owner)
	}
	s.Line("Payload", "%s", bytesText(j.Payload, j.PayloadSize, most))
	s.Line("Labels", "%s", output.Labels(j.Labels))
	s.Line("Limits", "%s", limitsText(j))
	for _, part := range []struct {
		label string
		bytes []byte
	}{{"Progress", j.Progress}, {"Checkpoint", j.Checkpoint}, {"Result", j.Result}} {
		if part.bytes != nil {
			s.Line(part.label, "%s", bytesText(part.bytes, len(part.bytes), most))
		}
	}
	if why := filter.LastError(j); why != output.LastLine(why) || j.Error != "" { // else the attempts have all of it
		s.Block("Error", why)
	}
	s.Table("Attempts", attemptRows(j, now))
	if refusal != nil {
		s.Line("Fenced", "late %s by %s under token %s refused %s", refusal.Verb, refusal.Owner, coord.Token(refusal.Token), output.Ago(refusal.At, now))
	}
	var trace []string
	for _, name := range slices.Sorted(maps.Keys(j.Trace)) {
		trace = append(trace, name+" "+j.Trace[name])
	}
	s.Line("Trace", "%s", strings.Join(trace, "   "))
	s.Line("Next", "%s", strings.Join(nextForJob(j), "   |   "))
	return s
}

func stateText(j *workqueue.Job, now time.Time) string {
	switch j.State {
	case workqueue.StateOrphan:
		return "claimed (orphan: the session of its owner, " + j.Owner + ", is gone; reclaimable now)"
	case workqueue.StateScheduled, workqueue.StateRetry:
		return fmt.Sprintf("%s (due in %s)", j.State, output.Age(j.RunAt.Sub(now)))
	case workqueue.StateDone, workqueue.StateDead, workqueue.StateCancelled:
		return fmt.Sprintf("%s (since %s)", j.State, strings.TrimPrefix(strings.TrimSuffix(output.Ago(j.FinishedAt, now), " ago"), "at "))
	}
	return string(j.State)
}

func limitsText(j *workqueue.Job) string {
	text := fmt.Sprintf("%d of %d failures, %d of %d losses", j.Failures, MaxAttempts(j), j.Losses, j.MaxLosses)
	if j.Timeout > 0 {
		text += ", " + j.Timeout.String() + " for each attempt"
	}
	if j.AtMostOnce {
		text += ", started at most once"
	}
	return text
}

// previewBytes is how much of a payload is shown on a terminal.
const previewBytes = 200

// bytesText is the size and the beginning of what a job carries.
func bytesText(b []byte, size, most int) string {
	switch {
	case size == 0:
		return "0 B"
	case b == nil:
		return fmt.Sprintf("%d B, gone since the job ended", size)
	case !utf8.Valid(b):
		return fmt.Sprintf("%d B, not text   (-o json has it as base64)", size)
	case len(b) > most:
		return fmt.Sprintf("%d B  %s...   (-o json has all of it)", size, strings.ToValidUTF8(string(b[:most]), ""))
	}
	return fmt.Sprintf("%d B  %s", size, b)
}

// attemptRows are the log, and the attempt that runs.
func attemptRows(j *workqueue.Job, now time.Time) (rows [][]string) {
	if cut := j.LogTotal - len(j.Attempts) - events.Repeats(j); cut > 0 {
		rows = append(rows, []string{fmt.Sprintf("(%d older ones are not kept)", cut)})
	}
	for i := range j.Attempts {
		at := &j.Attempts[i]
		var e events.Event
		e.Ended(at, at.EndedAt)
		row := []string{"", e.Actor, "", "", e.Type, output.LastLine(e.Detail), output.Ago(at.EndedAt, now)}
		if at.Attempt > 0 {
			row[0], row[2], row[3] = fmt.Sprintf("#%d", at.Attempt), "token "+at.Token.String(), output.TookBetween(at.ClaimedAt, at.EndedAt)
		}
		rows = append(rows, row)
	}
	if j.Owner == "" {
		return rows
	}
	doing := "running"
	if j.State == workqueue.StateOrphan {
		doing = "running? no heartbeat"
	}
	return append(rows, []string{fmt.Sprintf("#%d", j.Attempt), keyspace.IdentityOf(j.Owner), "token " + j.Token.String(), "", doing, "", output.Since(j.ClaimedAt)})
}

// nextForJob are the commands that fit the job's state.
func nextForJob(j *workqueue.Job) []string {
	ref := escape.Shell(cli.TextOf(j))
	next := []string{"leasectl jobs history " + ref}
	switch j.State {
	case workqueue.StateOrphan, workqueue.StateClaimed:
		return append([]string{"leasectl jobs release " + ref + " --break-claim"}, next...)
	case workqueue.StateDead:
		return append([]string{"leasectl jobs requeue " + ref}, next...)
	case workqueue.StateDone, workqueue.StateCancelled:
		return next
	}
	return append([]string{"leasectl work " + escape.Shell(j.Queue) + " -- CMD", "leasectl jobs cancel " + ref}, next...)
}
