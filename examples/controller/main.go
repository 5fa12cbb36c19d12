// Command controller is a Kubernetes controller whose long work is done by Leasekit's workers. See README.md.
//
// It finds the API server as kubectl does, and etcd by -endpoints.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/workqueue"
)

// settings are the flags.
type settings struct {
	endpoints   string
	root        string
	identity    string
	concurrency int
	takes       time.Duration
	metrics     string
	probes      string
}

func main() {
	host, _ := os.Hostname()
	var s settings
	flag.StringVar(&s.endpoints, "endpoints", "127.0.0.1:2379", "etcd's `ENDPOINTS`, separated by commas; not those of the cluster's own etcd")
	flag.StringVar(&s.root, "root", "", "the key `PREFIX` in etcd; /leasekit/ by default")
	flag.StringVar(&s.identity, "identity", host, "the `NAME` of this replica")
	flag.IntVar(&s.concurrency, "concurrency", 16, "`N` scans at a time")
	flag.DurationVar(&s.takes, "takes", time.Minute, "a scan takes `TIME`")
	flag.StringVar(&s.metrics, "metrics", ":8080", "`ADDRESS` of the metrics; 0 is none")
	flag.StringVar(&s.probes, "probes", ":8081", "`ADDRESS` of the probes; 0 is none")
	flag.Parse()
	logs := slog.NewTextHandler(os.Stderr, nil)
	log.SetLogger(logr.FromSlogHandler(logs))
	// A second SIGTERM changes nothing: what the first began ends in time anyway.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, s); err != nil {
		slog.New(logs).Error("controller", "error", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, s settings) error {
	kube, err := config.GetConfig()
	if err != nil {
		return err
	}
	logger, err := zap.NewProduction()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(s.endpoints, ","), Logger: logger})
	if err != nil {
		return err
	}
	defer client.Close()
	return run(ctx, kube, client, s, logger)
}

// run is the controller until ctx ends. What it opens first is closed last: the manager stops the worker, which gives
// back what does not finish, and the elector; then the member releases what else the session holds; then the queue's
// handle settles what is still on its way. By default that takes 25 s at most, of the 30 s that a pod has.
func run(ctx context.Context, kube *rest.Config, client *clientv3.Client, s settings, logger *zap.Logger) error {
	queue, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "scans", Root: s.root, Identity: s.identity, Logger: logger})
	if err != nil {
		return err
	}
	defer func() {
		if err := queue.Close(); err != nil { // what etcd did not answer ends with the lease
			logger.Warn("close queue", zap.Error(err))
		}
	}()

	// One session for all of the process. It outlives ctx, since the worker still needs it when ctx ends.
	member := coord.NewSessionKeeper(client, coord.SessionConfig{Root: s.root, Identity: s.identity, Logger: logger})
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	var alive sync.WaitGroup
	alive.Go(func() {
		if err := member.Run(life); err != nil {
			logger.Error("session", zap.Error(err))
		}
	})
	defer alive.Wait()
	defer leave()

	mgr, err := manager.New(kube, manager.Options{
		HealthProbeBindAddress: s.probes,
		Metrics:                server.Options{BindAddress: s.metrics},
	})
	if err != nil {
		return err
	}
	if err := add(mgr, queue, client, member, s, logger); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// add gives the manager all that it runs. None needs the manager's own leader election.
func add(mgr manager.Manager, queue *workqueue.Queue, client *clientv3.Client, member *coord.SessionKeeper, s settings, logger *zap.Logger) error {
	worker, err := workqueue.NewWorker(queue, scanner{takes: s.takes}, workqueue.WorkerConfig{Concurrency: s.concurrency, SessionKeeper: member})
	if err != nil {
		return err
	}
	dispatcher, err := workqueue.NewDispatcher(queue, workqueue.DispatcherConfig{})
	if err != nil {
		return err
	}
	elector, err := election.New(client, election.Config{Name: "sweeper", Root: s.root, SessionKeeper: member, Logger: logger})
	if err != nil {
		return err
	}
	results := results{client}
	sweeper := sweeper{cluster: mgr.GetAPIReader(), results: results, log: logger}
	for _, r := range []manager.Runnable{worker, dispatcher, elector.Runnable(sweeper.lead)} {
		if err := mgr.Add(r); err != nil {
			return err
		}
	}
	for name, check := range map[string]healthz.Checker{"worker": worker.Healthz, "dispatcher": dispatcher.Healthz, "sweeper": elector.Healthz} {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return err
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return (&reconciler{cluster: mgr.GetClient(), queue: queue, results: results}).setUp(mgr)
}
