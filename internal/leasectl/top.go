package leasectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/internal/leasectl/top"
)

func newTop(a *app) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, workers and events on a live screen",
		Long: `Watch queues, workers and events on a live screen, and pause, resume and retry from
there. It watches etcd and counts again when something has happened, at most twice a
second and never for more than a fifth of the time; since time alone makes jobs due
and lets leases run out, it also does when nothing has happened for some seconds.
When etcd does not answer, what was known stays, and the screen says of when it is.

Rates are of jobs that were done while it runs. What a key changes is asked about
first, and happens only if the queue or job is still as it was shown. Deleting and
purging have no key: the screen says which command does it. In a read-only context
nothing can be changed.

It needs a terminal of at least 60x14. With --once it prints one screen and ends,
without a terminal too, as large as COLUMNS and LINES say, else 80x24; with -o svg
that screen is a picture. NO_COLOR turns colours off.`,
		Example: `  leasectl top
  leasectl --context prod top
  COLUMNS=120 LINES=40 leasectl top --once
  COLUMNS=120 LINES=30 leasectl top --once -o svg >top.svg`,
		GroupID: groupLook,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := a.format(formatTable, formatSVG)
			switch {
			case err != nil:
				return err
			case once:
				return runTopOnce(cmd.Context(), a, format)
			case format == formatSVG:
				return usagef("--once -o svg", "top: a picture is of one screen")
			}
			return runTop(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one screen and end")
	return cmd
}

func runTop(ctx context.Context, a *app) error {
	const try = "leasectl status, or leasectl top --once"
	in, _ := a.in.(*os.File)
	out, _ := a.out.(*os.File)
	switch {
	case !isTerminal(a.in) || !isTerminal(a.out):
		return usagef(try, "top: it needs a terminal as stdin and stdout")
	case a.getenv("TERM") == "dumb":
		return usagef(try, "top: it needs a terminal that can be drawn on, and TERM is dumb")
	}
	return withDesk(ctx, a, func(d *topDesk) error {
		first, err := d.look(ctx)
		if err != nil {
			return err
		}
		m := top.New(ctx, d.config(), d, first)
		outcome, err := top.Run(ctx, m, in, out, d.follow, d.lookAgain)
		if outcome != "" {
			a.notef("%s", outcome)
		}
		var crash *top.Crash
		switch {
		case errors.As(err, &crash):
			fmt.Fprintf(a.err, "%s\n", crash.Stack)
		case interrupted(ctx) != nil && err == nil:
			return context.Cause(ctx)
		case errors.Is(err, top.ErrInterrupted): // by a key: in its mode the terminal sends no signal
			return &failure{code: exitInterrupted, err: &interruptError{sig: syscall.SIGINT}}
		}
		return err
	})
}

// runTopOnce prints what the screen would begin with.
func runTopOnce(ctx context.Context, a *app, format string) error {
	return withDesk(ctx, a, func(d *topDesk) error {
		first, err := d.look(ctx)
		if err != nil {
			return err
		}
		m := top.New(ctx, d.config(), d, first)
		m.Resize(topSize(a))
		if format == formatSVG {
			return m.Picture(a.out)
		}
		if _, err := fmt.Fprintln(a.out, m.Frame()); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	})
}

// topSize is the size of the terminal, or else what the environment says.
func topSize(a *app) (width, height int) {
	if f, ok := a.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	size := func(name string, otherwise int) int {
		const most = 10_000
		if n, err := strconv.Atoi(a.getenv(name)); err == nil && n > 0 && n < most {
			return n
		}
		return otherwise
	}
	return size("COLUMNS", 80), size("LINES", 24)
}

// config is what the screen is told of the settings.
func (d *topDesk) config() top.Config {
	s := &d.a.settings
	cfg := top.Config{Title: s.context, Where: d.c.where(), Colour: d.a.colourful(d.a.out), Age: age}
	if cfg.Title == "" {
		cfg.Title = d.c.endpoints[0] + " " + d.c.root
	}
	if s.chosen.ReadOnly {
		cfg.ReadOnly = fmt.Sprintf("%s is read-only: nothing can be changed from here", s.contextName())
	}
	if s.chosen.Confirm == contexts.ConfirmTypeName {
		cfg.TypeName = s.context
	}
	return cfg
}

// topQueue is a queue as the screen takes it; concurrency and busy are in the workers.
func topQueue(q queueItem, rev int64) top.Queue {
	t := top.Queue{
		Name: q.Name, Shell: escape.Shell(q.Name), Revision: rev, Paused: q.Paused, PausedBy: q.PausedBy,
		Ready: q.Ready, Scheduled: q.Scheduled, Retry: q.Retry, Claimed: q.Claimed, Orphan: q.Orphan, Dead: q.Dead,
		Busy: q.Claimed + q.Orphan, Rate: q.Recent.Rate,
	}
	if q.PausedAt != nil {
		t.PausedAt = *q.PausedAt
	}
	if q.Oldest != nil {
		t.Oldest = *q.Oldest
	}
	return t
}

func topWorker(w workerItem) top.Worker {
	t := top.Worker{
		Name: w.Name, Session: w.Session, Lost: w.State == workerLost, Busy: w.Busy, Concurrency: w.Concurrency,
		TTLLeft: time.Duration(w.TTLLeft) * time.Second,
	}
	for _, q := range w.Queues {
		t.Queues = append(t.Queues, q.Queue)
	}
	return t
}

func topJob(i jobItem) top.Job {
	t := top.Job{
		Queue: i.Queue, ID: i.ID, Kind: i.Kind, State: string(i.State), Attempt: fmt.Sprintf("%d/%d", i.Attempt, i.MaxAttempts),
		Owner: i.Owner, Enqueued: i.EnqueuedAt, Claimed: i.ClaimedAt, Error: lastLine(i.lastError()),
	}
	return t
}

func topEvent(e eventItem) top.Event {
	about := e.subject()
	if e.ID != "" {
		about = jobRef{e.Queue, e.ID}.text()
	}
	return top.Event{
		Revision: e.rev, Time: e.Time.Local(), Type: e.Type, Queue: e.Queue, ID: e.ID, Kind: e.Kind, About: about,
		Session: e.Session, Actor: e.Actor, Token: e.Token, Detail: lastLine(e.Detail),
	}
}
