package etcdtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
)

const (
	// startTimeout is generous, because test machines are slow and busy.
	startTimeout = 60 * time.Second
	dialTimeout  = 5 * time.Second
)

// Member is one server of a cluster, with Stop, Kill and Restart, and Cut and
// Mend for the traffic with its peers.
type Member = embedetcd.Member

// Proxy is a TCP proxy before one member, with Pause, PauseAnswers,
// PauseRequests, Drop, Sever, Refuse and Heal, and Wait* methods that block
// until something is held back.
type Proxy = faultproxy.Proxy

// TLS names the files that members serve clients with.
type TLS = embedetcd.TLS

// Config says what cluster a test needs. The zero value is one member that
// grants leases from 1 s on, without proxies.
type Config struct {
	// Members is 1 or 3; 0 means 1.
	Members int
	// Slow runs raft with etcd's default timing, with which the shortest lease
	// is 2 s, instead of twice as fast.
	Slow bool
	// Proxies puts a Proxy before every member.
	Proxies bool
	// QuotaBackendBytes limits each member's storage; 0 means etcd's default.
	QuotaBackendBytes int64
	// AuthTokenTTL is how long a simple auth token lives, in whole seconds;
	// 0 means etcd's default.
	AuthTokenTTL time.Duration
	// TLS, when not nil, makes members serve clients over TLS only. Client and
	// ProxiedClient do not know its certificates: make clients from Endpoints.
	TLS *TLS
	// Verbose sends the servers' logs to the test's log. Main and Start ignore
	// it: they have no test to log to.
	Verbose bool
}

// Cluster is a running etcd. Its methods may be called concurrently.
type Cluster struct {
	etcd    *embedetcd.Cluster
	proxies []*Proxy

	closeOnce sync.Once
	closeErr  error
}

// New starts a cluster for t and blocks until it serves; it ends in t's
// cleanup, after cleanups that were registered later. When it cannot start, t
// fails at once.
func New(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	var lg *zap.Logger
	if cfg.Verbose {
		lg = zaptest.NewLogger(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := start(ctx, cfg, lg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("stop etcd: %v", err)
		}
	})
	return c
}

// Start starts a cluster where there is no test to give to New, as in an
// Example, and blocks until it serves or ctx ends. Close must be called.
func Start(ctx context.Context, cfg Config) (*Cluster, error) { return start(ctx, cfg, nil) }

func start(ctx context.Context, cfg Config, lg *zap.Logger) (*Cluster, error) {
	e, err := embedetcd.Start(ctx, embedetcd.Config{
		Members:           cfg.Members,
		Fast:              !cfg.Slow,
		QuotaBackendBytes: cfg.QuotaBackendBytes,
		AuthTokenTTL:      cfg.AuthTokenTTL,
		TLS:               cfg.TLS,
		Logger:            lg,
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{etcd: e}
	if !cfg.Proxies {
		return c, nil
	}
	for _, ep := range e.Endpoints() {
		p, err := faultproxy.New(ep)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.proxies = append(c.proxies, p)
	}
	return c, nil
}

// Close stops the proxies and the members, removes their data, and blocks
// until all that has ended. Clusters made by New and Shared are closed without
// it. It may be called again.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		for _, p := range c.proxies {
			_ = p.Close() // always nil
		}
		c.closeErr = c.etcd.Close()
	})
	return c.closeErr
}

// Endpoints returns the client URL of every member, past the proxies.
func (c *Cluster) Endpoints() []string { return c.etcd.Endpoints() }

// ProxiedEndpoints returns the URL of every member's proxy. It panics if the
// cluster has none.
func (c *Cluster) ProxiedEndpoints() []string {
	c.mustProxy()
	eps := make([]string, 0, len(c.proxies))
	for _, p := range c.proxies {
		eps = append(eps, p.Endpoint())
	}
	return eps
}

// Proxy returns the proxy before member i. It panics if the cluster has none.
func (c *Cluster) Proxy(i int) *Proxy {
	c.mustProxy()
	return c.proxies[i]
}

// NewProxies puts one more proxy before every member, in the order of Members:
// the network of one client, whose faults no other client sees. They end in t's
// cleanup.
func (c *Cluster) NewProxies(t testing.TB) []*Proxy {
	t.Helper()
	proxies := make([]*Proxy, 0, len(c.Members()))
	for _, ep := range c.Endpoints() {
		p, err := faultproxy.New(ep)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() }) // always nil
		proxies = append(proxies, p)
	}
	return proxies
}

func (c *Cluster) mustProxy() {
	if len(c.proxies) == 0 {
		panic("etcdtest: the cluster has no proxies: set Config.Proxies")
	}
}

// Client returns a new client of all members, past the proxies. It is closed
// in t's cleanup. opts are for interceptors, such as Recorder.DialOptions.
func (c *Cluster) Client(t testing.TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	return NewClient(t, c.Endpoints(), opts...)
}

// ProxiedClient is Client through the proxies.
func (c *Cluster) ProxiedClient(t testing.TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	return NewClient(t, c.ProxiedEndpoints(), opts...)
}

// NewClient returns a new client of exactly these endpoints, of one member of
// three for example. It does not wait for a connection, logs nothing, and is
// closed in t's cleanup. It may be closed earlier.
func NewClient(t testing.TB, endpoints []string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: dialTimeout,
		DialOptions: opts,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("make an etcd client: %v", err)
	}
	t.Cleanup(func() {
		// The only error is that of a client which was closed before.
		_ = cl.Close()
	})
	return cl
}

// Member returns member i.
func (c *Cluster) Member(i int) *Member { return c.etcd.Members()[i] }

// Members returns all members, running or not.
func (c *Cluster) Members() []*Member { return c.etcd.Members() }

// Leader blocks until a majority of members agrees on a leader, and returns
// it. t fails at once when there is none after a minute.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	m, err := c.etcd.WaitLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// MoveLeader hands leadership over to member to and blocks until it has it.
// t fails at once when that does not happen within a minute.
func (c *Cluster) MoveLeader(t testing.TB, to *Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.etcd.MoveLeader(ctx, to); err != nil {
		t.Fatal(err)
	}
}
