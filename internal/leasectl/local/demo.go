package local

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/child"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/demo"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// NewDemo is leasectl demo.
func NewDemo(a *cli.App) *cobra.Command {
	o := demo.Options{WorkerArgs: []string{"demo", "worker"}, ErrOut: a.Err, Note: a.Notef}
	cmd := cli.Group(&cobra.Command{
		Use:   "demo",
		Short: "Show it: kill one worker, freeze another, and every job is done once",
		Long: `Start an embedded etcd and real worker processes, enqueue real jobs (hash a part
of a file, paced to 50..300 ms), kill one worker in the middle of a job, stop
another past its lease and wake it, and end with a table. It takes about half a
minute and leaves nothing behind.

Exit 0 only if every job finished, none was accepted twice or lost, at least one
was reclaimed from the killed worker, and at least one late result of the frozen
one was refused.`,
		GroupID: cli.GroupLocal,
		Example: `  leasectl demo
  leasectl demo --workers 8 --jobs 500 -o json`,
	}, newDemoWorker(a))
	f := cmd.Flags()
	f.IntVar(&o.Workers, "workers", 4, "run `N` worker processes")
	f.IntVar(&o.Jobs, "jobs", 200, "enqueue `N` jobs")
	f.Uint64Var(&o.Seed, "seed", 1, "make the jobs from seed `N`")
	verbs := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return verbs(cmd, args)
		}
		return runDemo(cmd.Context(), a, o)
	}
	return cmd
}

// demoTimeout bounds the demo: it takes half a minute.
const demoTimeout = 3 * time.Minute

func runDemo(ctx context.Context, a *cli.App, o demo.Options) error {
	switch {
	case o.Workers < 2 || o.Workers > 64:
		return exit.Usagef("--workers 4", "--workers is %d: want 2 to 64, since one is killed and one is frozen", o.Workers)
	case o.Jobs < 20 || o.Jobs > 100_000:
		return exit.Usagef("--jobs 200", "--jobs is %d: want 20 to 100000, so that something is left to do after the faults", o.Jobs)
	}
	format, err := a.Format(output.Table, output.JSON)
	if err != nil {
		return err
	}
	o.Progress = demoProgress(a)
	ctx, cancel := context.WithTimeout(ctx, demoTimeout+time.Duration(o.Jobs)*200*time.Millisecond)
	defer cancel()
	r, err := demo.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if format == output.JSON {
		err = output.PrintJSON(a.Out, r)
	} else {
		err = output.PrintList(output.Printer{W: a.Out, Format: format}, demoView, []demo.Report{r})
	}
	if err != nil {
		return err
	}
	if err := r.Failed(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	a.Notef("every job was done once: the killed worker's jobs were taken over, the frozen worker's late results refused")
	return nil
}

var demoView = output.View[demo.Report]{Columns: []output.Column[demo.Report]{
	{Head: "JOBS", Cell: func(r demo.Report) string { return fmt.Sprint(r.Jobs) }},
	{Head: "FINISHED", Cell: func(r demo.Report) string { return fmt.Sprint(r.Finished) }},
	{Head: "ACCEPTED-TWICE", Cell: func(r demo.Report) string { return fmt.Sprint(r.AcceptedTwice) }},
	{Head: "LOST", Cell: func(r demo.Report) string { return fmt.Sprint(r.Lost) }},
	{Head: "RECLAIMED", Cell: func(r demo.Report) string { return fmt.Sprint(r.Reclaimed) }},
	{Head: "LATE-REFUSED", Cell: func(r demo.Report) string { return fmt.Sprint(r.LateRefused) }},
	{Head: "TAKEOVER-AFTER-LEASE-END", Cell: func(r demo.Report) string { return fmt.Sprintf("%.0fms", r.TakeoverMS) }},
}}

// demoProgress prints a line now and then, when something changed.
func demoProgress(a *cli.App) func(demo.Progress) {
	var last demo.Progress
	return func(p demo.Progress) {
		if p.Done == last.Done && p.Done > 0 {
			return
		}
		last = p
		a.Notef("%d of %d jobs done, %d running", p.Done, p.Jobs, p.Running)
	}
}

// newDemoWorker is a worker process of the demo.
func newDemoWorker(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := child.UntilEOF(cmd.Context(), a.In)
			defer cancel()
			c, err := a.Connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return demo.Work(ctx, c.Client, c.Root, a.Out)
		},
	}
}
