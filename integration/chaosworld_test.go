package integration_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	chaosRoot    = "/chaos/leasekit/"
	chaosEffects = "/chaos/effects/" // what jobs write with their results
	chaosQueue   = "q"
	// chaosTTL is short, so that sessions are lost, and long enough that a busy machine
	// loses none by itself.
	chaosTTL = 2 * time.Second

	adminUser, workerUser = "root", "worker"
	password              = "secret"

	workerProcesses, workersInside = 3, 3
)

// chaosWorld is what the run takes place in: an etcd with users, the networks of all
// clients, and an operator's client past them.
type chaosWorld struct {
	cfg     chaosConfig
	cluster *etcdtest.Cluster
	env     *faults.Env
	admin   *clientv3.Client
	rpcs    history.RPCs
	dir     string // for the logs of processes, and pictures; go test -artifacts keeps it
}

func newChaosWorld(t *testing.T, cfg chaosConfig) *chaosWorld {
	t.Helper()
	w := &chaosWorld{cfg: cfg, cluster: etcdtest.New(t, etcdtest.Config{Members: cfg.members}), dir: t.ArtifactDir()}
	enableAuth(t, w.cluster.Client(t))
	w.admin = dialAs(t, adminUser, w.cluster.Endpoints())
	w.env = &faults.Env{
		Cluster: w.cluster, Client: w.admin, Root: chaosRoot, Rand: cfg.rng("faults"), User: workerUser, Password: password,
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
		func() error { _, err := cl.RoleAdd(ctx, "worker"); return err },
		func() error {
			_, err := cl.RoleGrantPermission(ctx, "worker", "/chaos/", clientv3.GetPrefixRangeEnd("/chaos/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := cl.UserGrantRole(ctx, workerUser, "worker"); return err },
		func() error { _, err := cl.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// dialAs returns a client that is logged in.
func dialAs(t *testing.T, user string, endpoints []string) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: user, Password: password, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() }) // whose error is that of its context
	return cl
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
	q, err := workqueue.Open(bounded(t), w.admin, workqueue.Config{Queue: chaosQueue, Root: chaosRoot})
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
	cl, err := clientv3.New(clientv3.Config{
		Endpoints: w.network(t), Username: workerUser, Password: password, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialOptions: w.rpcs.DialOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() }) // whose error is that of its context
	return cl
}

// openBehind opens the queue for a client that has a network of its own, recorded
// under a name.
func (w *chaosWorld) openBehind(t *testing.T, rec *history.Recorder, name string) *history.Queue {
	t.Helper()
	cl := w.dialBehind(t)
	q, err := workqueue.Open(bounded(t), cl, queueConfig(zap.New(rec.Reached().Core())))
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
