// Package desk is leasectl top: it reads the cluster for the screen of package top, and does what its keys ask for.
package desk

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

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leasectl/top"
)

// New is leasectl top.
func New(a *cli.App) *cobra.Command {
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
		GroupID: cli.GroupLook,
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := a.Format(output.Table, output.SVG)
			switch {
			case err != nil:
				return err
			case once:
				return runTopOnce(cmd.Context(), a, format)
			case format == output.SVG:
				return exit.Usagef("--once -o svg", "top: a picture is of one screen")
			}
			return runTop(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one screen and end")
	return cmd
}

func runTop(ctx context.Context, a *cli.App) error {
	const try = "leasectl status, or leasectl top --once"
	in, _ := a.In.(*os.File)
	out, _ := a.Out.(*os.File)
	switch {
	case !output.IsTerminal(a.In) || !output.IsTerminal(a.Out):
		return exit.Usagef(try, "top: it needs a terminal as stdin and stdout")
	case a.Getenv("TERM") == "dumb":
		return exit.Usagef(try, "top: it needs a terminal that can be drawn on, and TERM is dumb")
	}
	return withDesk(ctx, a, func(d *topDesk) error {
		first, err := d.look(ctx)
		if err != nil {
			return err
		}
		m := top.New(ctx, d.config(), d, first)
		outcome, err := top.Run(ctx, m, in, out, d.follow, d.lookAgain)
		if outcome != "" {
			a.Notef("%s", outcome)
		}
		var crash *top.Crash
		switch {
		case errors.As(err, &crash):
			fmt.Fprintf(a.Err, "%s\n", crash.Stack)
		case exit.Signal(ctx) != nil && err == nil:
			return context.Cause(ctx)
		case errors.Is(err, top.ErrInterrupted): // by a key: in its mode the terminal sends no signal
			return &exit.Error{Code: exit.Interrupted, Err: &exit.SignalError{Sig: syscall.SIGINT}}
		}
		return err
	})
}

// runTopOnce prints what the screen would begin with.
func runTopOnce(ctx context.Context, a *cli.App, format string) error {
	return withDesk(ctx, a, func(d *topDesk) error {
		first, err := d.look(ctx)
		if err != nil {
			return err
		}
		m := top.New(ctx, d.config(), d, first)
		m.Resize(topSize(a))
		if format == output.SVG {
			return m.Picture(a.Out)
		}
		return output.Write(a.Out, m.Frame()+"\n")
	})
}

// topSize is the size of the terminal, or else what the environment says.
func topSize(a *cli.App) (width, height int) {
	if f, ok := a.Out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	size := func(name string, otherwise int) int {
		const most = 10_000
		if n, err := strconv.Atoi(a.Getenv(name)); err == nil && n > 0 && n < most {
			return n
		}
		return otherwise
	}
	return size("COLUMNS", 80), size("LINES", 24)
}

// config is what the screen is told of the settings.
func (d *topDesk) config() top.Config {
	s := &d.a.Settings
	cfg := top.Config{Title: s.Context, Where: d.c.Where(), Colour: d.a.Colourful(d.a.Out), Age: output.Age}
	if cfg.Title == "" {
		cfg.Title = d.c.Endpoints[0] + " " + d.c.Root
	}
	if s.Chosen.ReadOnly {
		cfg.ReadOnly = fmt.Sprintf("%s is read-only: nothing can be changed from here", s.ContextName())
	}
	if s.Chosen.Confirm == contexts.ConfirmTypeName {
		cfg.TypeName = s.Context
	}
	return cfg
}

// topQueue is a queue as the screen takes it; concurrency and busy are in the workers.
func topQueue(q look.Queue, rev int64) top.Queue {
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

func topWorker(w look.Worker) top.Worker {
	t := top.Worker{
		Name: w.Name, Session: w.Session, Lost: w.State == look.WorkerLost, Busy: w.Busy, Concurrency: w.Concurrency,
		TTLLeft: time.Duration(w.TTLLeft) * time.Second,
	}
	for _, q := range w.Queues {
		t.Queues = append(t.Queues, q.Queue)
	}
	return t
}

func topJob(i jobs.Item) top.Job {
	return top.Job{
		Queue: i.Queue, ID: i.ID, Kind: i.Kind, State: string(i.State), Attempt: fmt.Sprintf("%d/%d", i.Attempt, i.MaxAttempts),
		Owner: i.Owner, Enqueued: i.EnqueuedAt, Claimed: i.ClaimedAt, Error: output.LastLine(i.LastError()),
	}
}

func topEvent(e events.Event) top.Event {
	about := e.Subject()
	if e.ID != "" {
		about = cli.JobRef{Queue: e.Queue, ID: e.ID}.Text()
	}
	return top.Event{
		Revision: e.Rev, Time: e.Time.Local(), Type: e.Type, Queue: e.Queue, ID: e.ID, Kind: e.Kind, About: about,
		Session: e.Session, Actor: e.Actor, Token: e.Token, Detail: output.LastLine(e.Detail),
	}
}
