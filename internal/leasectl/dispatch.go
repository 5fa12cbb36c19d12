package leasectl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/leasekit/leasekit/workqueue"
)

func newDispatch(a *app) *cobra.Command {
	var ttl time.Duration
	var prefetch int
	cmd := &cobra.Command{
		Use:   "dispatch QUEUE...",
		Short: "Hand the jobs of queues out to their workers",
		Long: `Stand for dispatcher of each queue, and hand its jobs out to its workers while this
process leads and the queue is in mode dispatch (see leasectl queues set). Run one,
or several as standbys: the next takes over when the leader stops, at once, or dies,
after the TTL. Nothing is kept but in etcd. SIGINT and SIGTERM stop it cleanly.`,
		GroupID: groupWork,
		Example: `  leasectl dispatch mail
  leasectl dispatch mail reports --ttl 5s`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef(helpOf(cmd), "dispatch: QUEUE is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTTL(ttl); err != nil {
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

func runDispatch(ctx context.Context, a *app, queues []string, cfg workqueue.DispatcherConfig) error {
	return a.withEtcd(ctx, func(c *connection) error {
		defer watchOver(ctx, c, a.notef)()
		g, gctx := errgroup.WithContext(ctx)
		for _, name := range queues {
			g.Go(func() error { return dispatchQueue(gctx, a, c, name, cfg) })
		}
		err := g.Wait()
		if interrupted(ctx) != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return nil // a clean stop
		}
		return err
	})
}

func dispatchQueue(ctx context.Context, a *app, c *connection, name string, cfg workqueue.DispatcherConfig) error {
	log := &workLog{w: a.err}
	q, err := a.openQueue(ctx, c, name, log.zap())
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	d, err := workqueue.NewDispatcher(q, cfg)
	if err != nil {
		return err
	}
	a.notef("standing for dispatcher of queue %s (Ctrl-C stops)", name)
	observe, stop := context.WithCancel(ctx)
	var observing sync.WaitGroup
	observing.Go(func() {
		for s := range d.Elector().Observe(observe) {
			a.notef("dispatcher of %s: %s %s", name, s.Status, s.Session)
		}
	})
	defer observing.Wait()
	defer stop()
	return d.Run(ctx)
}
