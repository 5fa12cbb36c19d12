package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// NewDispatch is leasectl dispatch.
func NewDispatch(a *cli.App) *cobra.Command {
	var ttl time.Duration
	var prefetch int
	cmd := &cobra.Command{
		Use:   "dispatch QUEUE...",
		Short: "Hand the jobs of queues out to their workers",
		Long: `Stand for dispatcher of each queue, and hand its jobs out to its workers while this
process leads and the queue is in mode dispatch (see leasectl queues set). Run one,
or several as standbys: the next takes over when the leader stops, at once, or dies,
after the TTL. Nothing is kept but in etcd. SIGINT and SIGTERM stop it cleanly.`,
		GroupID: cli.GroupWork,
		Example: `  leasectl dispatch mail
  leasectl dispatch mail reports --ttl 5s`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef(cli.HelpOf(cmd), "dispatch: QUEUE is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckTTL(ttl); err != nil {
				return err
			}
			return runDispatch(cmd.Context(), a, args, workqueue.DispatcherConfig{TTL: ttl, Prefetch: prefetch})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&ttl, "ttl", 10*time.Second, "a standby takes over `TIME` after this process is gone")
	f.IntVar(&prefetch, "prefetch", 0, "let a worker hold `N` jobs more than it runs")
	return cmd
}

func runDispatch(ctx context.Context, a *cli.App, queues []string, cfg workqueue.DispatcherConfig) error {
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		defer connect.WatchOver(ctx, c, a.Notef)()
		g, gctx := errgroup.WithContext(ctx)
		for _, name := range queues {
			g.Go(func() error { return dispatchQueue(gctx, a, c, name, cfg) })
		}
		err := g.Wait()
		if exit.Signal(ctx) != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return nil // a clean stop
		}
		return err
	})
}

func dispatchQueue(ctx context.Context, a *cli.App, c *connect.Conn, name string, cfg workqueue.DispatcherConfig) error {
	log := &workLog{w: a.Err}
	q, err := a.OpenQueue(ctx, c, name, log.zap())
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	d, err := workqueue.NewDispatcher(q, cfg)
	if err != nil {
		return err
	}
	a.Notef("standing for dispatcher of queue %s (Ctrl-C stops)", name)
	observe, stop := context.WithCancel(ctx)
	var observing sync.WaitGroup
	observing.Go(func() {
		for s := range d.Elector().Observe(observe) {
			a.Notef("dispatcher of %s: %s %s", name, s.Status, s.Session)
		}
	})
	defer observing.Wait()
	defer stop()
	return d.Run(ctx)
}
