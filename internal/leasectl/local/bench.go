package local

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/bench"
	"github.com/leasekit/leasekit/internal/leasectl/child"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// NewBench is leasectl bench.
func NewBench(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "bench",
		Short:   "Measure Leasekit against raw etcd",
		GroupID: cli.GroupLocal,
		Example: `  leasectl bench e2e
  leasectl bench e2e --workers 4 --concurrency 50 -o json`,
	}, cli.StaysHome(newBenchE2E(a)), newBenchWorker(a), newBenchServer(a))
}

func newBenchE2E(a *cli.App) *cobra.Command {
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "e2e",
		Short: "Measure the full life of jobs: enqueue, claim, complete",
		Long: `Measure the full life of no-op jobs of 200 bytes, against --endpoints where that
is given, else on an etcd of its own in another process. Rounds are interleaved,
and medians are reported:

  raw puts   plain puts of 200 bytes with 64 callers, the yardstick
  job lives  -c producers, one enqueue per call, and --workers processes of
             --concurrency handlers each at the same time, from the first
             enqueue to the last accepted completion

Absolute rates say more about the machine than about the code: compare ratios.`,
		Example: `  leasectl bench e2e
  leasectl bench e2e -n 20000 -c 100 --workers 4 --concurrency 50 -o json`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runBenchE2E(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.IntVarP(&o.Jobs, "jobs", "n", 20_000, "put `N` jobs through their life in each round")
	f.IntVarP(&o.Producers, "producers", "c", 100, "enqueue from `N` callers at a time")
	f.IntVar(&o.Workers, "workers", 1, "run `N` worker processes")
	f.IntVar(&o.Concurrency, "concurrency", 100, "run `N` handlers in each worker process")
	f.IntVar(&o.Rounds, "rounds", 3, "measure `N` rounds")
	return cmd
}

func runBenchE2E(ctx context.Context, a *cli.App, o bench.Options) error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"-n", o.Jobs}, {"-c", o.Producers}, {"--workers", o.Workers}, {"--concurrency", o.Concurrency}, {"--rounds", o.Rounds}} {
		if n.value < 1 {
			return exit.Usagef(n.flag+" 1", "%s is %d: at least 1 is needed", n.flag, n.value)
		}
	}
	format, err := a.Format(output.Table, output.JSON)
	if err != nil {
		return err
	}
	endpoints, stop, err := benchTarget(ctx, a)
	if err != nil {
		return err
	}
	defer stop()
	o.Dial = benchDial(a, endpoints)
	o.WorkerArgs, o.WorkerEnv = []string{"bench", "worker"}, a.Settings.ChildEnv(endpoints)
	o.ErrOut, o.Note = a.Err, a.Notef
	r, err := bench.E2E(ctx, o)
	if err != nil {
		return fmt.Errorf("bench e2e: %w", err)
	}
	if format == output.JSON {
		return output.PrintJSON(a.Out, r)
	}
	return output.PrintList(output.Printer{W: a.Out, Format: format}, benchView, benchRows(r))
}

// benchTarget is the etcd to measure on: the one that was named, else one of its
// own in another process, so that client and server do not share a runtime.
func benchTarget(ctx context.Context, a *cli.App) (endpoints string, stop func(), err error) {
	if a.Settings.Named("endpoints") {
		c, err := a.Connect(ctx)
		if err != nil {
			return "", nil, err
		}
		defer c.Close()
		return a.Settings.Endpoints, func() {}, nil
	}
	server, err := child.Start(a.Err, nil, "bench", "server")
	if err != nil {
		return "", nil, err
	}
	stop = func() { _ = server.Stop(10 * time.Second) }
	select {
	case line, ok := <-server.Lines:
		if !ok {
			stop()
			return "", nil, fmt.Errorf("start etcd: it ended early")
		}
		return line, stop, nil
	case <-ctx.Done():
		stop()
		return "", nil, context.Cause(ctx)
	}
}

// benchDial makes clients with options of their own.
func benchDial(a *cli.App, endpoints string) func(...grpc.DialOption) (*clientv3.Client, error) {
	return func(opts ...grpc.DialOption) (*clientv3.Client, error) {
		s := a.Settings
		s.Endpoints = endpoints
		t, err := s.Target(context.Background(), a.Getenv)
		if err != nil {
			return nil, err
		}
		return clientv3.New(clientv3.Config{
			Endpoints: t.Endpoints, TLS: t.TLS, Username: t.User, Password: t.Password,
			DialTimeout: t.Timeout, Logger: zap.NewNop(), DialOptions: opts,
		})
	}
}

// newBenchWorker is a worker process of bench e2e.
func newBenchWorker(a *cli.App) *cobra.Command {
	concurrency := 1
	cmd := &cobra.Command{
		Use: "worker QUEUE", Hidden: true, Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := child.UntilEOF(cmd.Context(), a.In)
			defer cancel()
			return bench.Work(ctx, benchDial(a, a.Settings.Endpoints), a.Settings.Root, args[0], concurrency, a.Out)
		},
	}
	cmd.Flags().IntVar(&concurrency, "concurrency", 1, "run `N` handlers")
	return cmd
}

// newBenchServer is the etcd process of bench e2e: it says its endpoint.
func newBenchServer(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "server", Hidden: true, Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := child.UntilEOF(cmd.Context(), a.In)
			defer cancel()
			etcd, err := embedetcd.Start(ctx, embedetcd.Config{})
			if err != nil {
				return err
			}
			defer etcd.Close()
			if _, err := fmt.Fprintln(a.Out, etcd.Endpoints()[0]); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	}
}

// benchRow is one line of the table.
type benchRow struct{ what, value string }

var benchView = output.View[benchRow]{Columns: []output.Column[benchRow]{
	{Head: "FIGURE", Cell: func(r benchRow) string { return r.what }},
	{Head: "VALUE", Cell: func(r benchRow) string { return r.value }},
}}

func benchRows(r bench.Report) []benchRow {
	return []benchRow{
		{"raw puts per s (64 callers)", fmt.Sprintf("%.0f", r.RawPuts)},
		{"jobs per s (enqueue, claim, complete)", fmt.Sprintf("%.0f", r.Rate)},
		{"ratio of the two", fmt.Sprintf("%.2f", r.Ratio)},
		{"Txns per job", fmt.Sprintf("%.3f", r.Txns)},
		{"lost races per job", fmt.Sprintf("%.3f", r.Conflicts)},
		{"claim p50 / p99", fmt.Sprintf("%.1f / %.1f ms", r.ClaimP50, r.ClaimP99)},
		{"pick-up p50 / p99", fmt.Sprintf("%.1f / %.1f ms", r.PickupP50, r.PickupP99)},
		{"run twice", fmt.Sprint(r.RunTwice)},
	}
}
