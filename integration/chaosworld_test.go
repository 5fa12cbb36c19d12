package integration_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	chaosRoot             = "/chaos/leasekit/"
	chaosEffects          = "/chaos/effects/" // what jobs write with their results
	chaosQueue            = "q"
	chaosElections        = chaosRoot + "elections/"
	adminUser, workerUser = "root", "worker"
	workerRole            = "worker"
	password              = "secret"
)

// size is what a run has to do with. TTLs are short, so that sessions are lost, and
// long enough that a busy machine loses none by itself.
type size struct {
	ttl                time.Duration
	processes, inside  int           // workers, in processes of their own and in this one
	concurrency, batch int           // of a worker; most jobs of one enqueue
	between            time.Duration // two enqueues of a producer, about
}

func theSize() size {
	if raceDetector {
		return size{ttl: 5 * time.Second, processes: 2, inside: 2, concurrency: 3, batch: 10, between: 500 * time.Millisecond}
	}
	return size{ttl: 2 * time.Second, processes: 3, inside: 3, concurrency: 6, batch: 20, between: 250 * time.Millisecond}
}

// chaosWorld is what the run takes place in: an etcd with users, the networks of all
// clients, and an operator's client past them.
type chaosWorld struct {
	cfg           chaosConfig
	cluster       *etcdtest.Cluster
	env           *faults.Env
	adminClient   *clientv3.Client
	admin, worker login // both empty without auth
	rpcs          history.RPCs
	dir           string // for the logs of processes, and pictures; go test -artifacts keeps it
}

func newChaosWorld(t *testing.T, cfg chaosConfig) *chaosWorld {
	t.Helper()
	w := &chaosWorld{cfg: cfg, cluster: etcdtest.New(t, etcdtest.Config{Members: cfg.members}), dir: t.ArtifactDir()}
	if cfg.auth {
		w.admin, w.worker = login{adminUser, password}, login{workerUser, password}
		enableAuth(t, w.cluster.Client(t))
	}
	w.adminClient = w.dial(t, w.admin, w.cluster.Endpoints())
	w.env = &faults.Env{
		Cluster: w.cluster, Client: w.adminClient, Root: chaosRoot, Rand: cfg.rng("faults"), User: w.worker.User, Password: w.worker.Password,
		Role: workerRole,
	}
	if cfg.auth {
		w.env.Grants = chaosGrants[:1] // what they lead, and stand for
	}
	return w
}

// enableAuth makes an administrator, and a user for everybody else who may read and
// write below /chaos/ only.
func enableAuth(t *testing.T, cl *clientv3.Client) {
	t.Helper()
	ctx := bounded(t)
	for _, step := range []func() error{
		func() error { _, err := cl.UserAdd(ctx, adminUser, password); return err },
		func() error { _, err := cl.UserGrantRole(ctx, adminUser, "root"); return err },
		func() error { _, err := cl.UserAdd(ctx, workerUser, password); return err },
		func() error { _, err := cl.RoleAdd(ctx, workerRole); return err },
		func() error { _, err := cl.UserGrantRole(ctx, workerUser, workerRole); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range chaosGrants {
		if _, err := cl.RoleGrantPermission(ctx, workerRole, g.Key, g.End, clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
}

// chaosGrants are what workers may read and write, in parts, so that one can be taken.
var chaosGrants = []faults.Grant{
	{Key: chaosElections, End: clientv3.GetPrefixRangeEnd(chaosElections)},
	{Key: "/chaos/", End: chaosElections},
	{Key: clientv3.GetPrefixRangeEnd(chaosElections), End: clientv3.GetPrefixRangeEnd("/chaos/")},
}

// login is a user and a password, or neither.
type login struct{ User, Password string }

// dial returns a client, which is closed in t's cleanup.
func (w *chaosWorld) dial(t *testing.T, as login, endpoints []string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	cl, err := newClient(as, endpoints, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !closeClient(cl) {
			t.Errorf("a client of etcd does not close")
		}
	})
	return cl
}

func newClient(as login, endpoints []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: as.User, Password: as.Password, DialTimeout: 3 * time.Second, Logger: zap.NewNop(), DialOptions: opts,
	})
}

// closeClient closes a client. False means that it hangs: clientv3 3.7.3 can, for ever,
// when etcd has refused several watches of one stream, as it does with old tokens.
func closeClient(cl *clientv3.Client) bool {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = cl.Close() // whose error is that of its context
	}()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-closed:
		return true
	case <-late.C:
		return false
	}
}

// network gives a client a network of its own, and returns its endpoints.
func (w *chaosWorld) network(t *testing.T) (endpoints []string) {
	t.Helper()
	proxies := w.cluster.NewProxies(t)
	w.env.Networks = append(w.env.Networks, proxies)
	for _, p := range proxies {
		endpoints = append(endpoints, p.Endpoint())
	}
	return endpoints
}

// openAdmin opens the queue past all proxies.
func (w *chaosWorld) openAdmin(t *testing.T) *workqueue.Queue {
	t.Helper()
	q, err := workqueue.Open(bounded(t), w.adminClient, workqueue.Config{Queue: chaosQueue, Root: chaosRoot})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return q
}

// dialBehind returns a worker's client that has a network of its own.
func (w *chaosWorld) dialBehind(t *testing.T) *clientv3.Client {
	t.Helper()
	return w.dial(t, w.worker, w.network(t), w.watched()...)
}

// watched are the options of a client in this process: what it sends is looked at, and
// can be denied.
func (w *chaosWorld) watched() []grpc.DialOption {
	plan := &etcdtest.Plan{}
	w.env.Plans = append(w.env.Plans, plan)
	return append(w.rpcs.DialOptions(), plan.DialOptions()...)
}

// openBehind opens the queue for a client that has a network of its own, recorded
// under a name.
func (w *chaosWorld) openBehind(t *testing.T, rec *history.Recorder, name string) *history.Queue {
	t.Helper()
	cl := w.dialBehind(t)
	q, err := insist(bounded(t), func(ctx context.Context) (*workqueue.Queue, error) {
		return workqueue.Open(ctx, cl, queueConfig(zap.New(rec.Reached().Core())))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return rec.Queue(name, q)
}

// queueConfig is everybody's: short pauses, so that much happens.
func queueConfig(log *zap.Logger) workqueue.Config {
	return workqueue.Config{
		Queue: chaosQueue, Root: chaosRoot, Logger: log, Quiet: time.Second, ScanEvery: 10 * time.Second,
		Backoff: workqueue.Backoff{Initial: 20 * time.Millisecond, Max: time.Second},
		// Nothing expires within a run, so that what is gone is lost.
		Retention: 24 * time.Hour, RetainJobs: 1 << 30, RetainBytes: 1 << 40,
	}
}
