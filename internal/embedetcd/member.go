package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"
)

// drainGrace is how long Stop lets calls in flight finish. Watches and
// renewal streams never finish by themselves and are ended after it.
const drainGrace = 200 * time.Millisecond

var errNotRunning = errors.New("member is not running")

// Member is one server of a Cluster. Its methods may be called concurrently;
// Stop, Kill and Restart of one member wait for each other.
type Member struct {
	c                    *Cluster
	name                 string
	clientAddr, peerAddr string

	life sync.Mutex // serialises launch, Stop, Kill, Restart
	cur  atomic.Pointer[running]
	cut  bool // guarded by c.mu
}

// running is one life of a member, from launch to Stop or Kill.
type running struct {
	etcd *embed.Etcd
	// grpc may be read only after serving is closed.
	grpc    *grpc.Server
	serving chan struct{}
	calls   *handlers
}

// Name returns the member's name, such as "m1".
func (m *Member) Name() string { return m.name }

// Endpoint returns the member's client URL. It does not change over restarts.
func (m *Member) Endpoint() string { return m.scheme() + "://" + dialable(m.clientAddr) }

// Server gives access to the running server, or nil while the member is
// stopped. A server is one life: after Restart there is a new one.
func (m *Member) Server() *etcdserver.EtcdServer {
	if r := m.cur.Load(); r != nil {
		return r.etcd.Server
	}
	return nil
}

// Stop ends the member cleanly: leadership goes to a peer if there is one,
// calls in flight get a moment to finish, then connections are closed. It
// blocks until the member is gone. Stopping a stopped member does nothing.
func (m *Member) Stop() {
	m.life.Lock()
	defer m.life.Unlock()
	r := m.cur.Load()
	if r == nil {
		return
	}
	// An error means that no peer could take over; the stop goes on, and the
	// server has logged it.
	_ = r.etcd.Server.TryTransferLeadershipOnShutdown()
	r.drain()
	m.halt(r)
}

// Kill ends the member abruptly: no hand-over of leadership, connections are
// cut in the middle of whatever they carry. It blocks until the member is
// gone. Killing a stopped member does nothing.
func (m *Member) Kill() {
	m.life.Lock()
	defer m.life.Unlock()
	if r := m.cur.Load(); r != nil {
		m.halt(r)
	}
}

// Restart starts a stopped member again, with its data and on its ports, and
// blocks until it serves clients. That takes a majority of members, so when
// most are stopped restart them concurrently. When it fails (ctx ends, the
// cluster is closed, the member runs) the member is as it was before. If some
// other program holds one of its ports, it tries again until ctx ends.
func (m *Member) Restart(ctx context.Context) error {
	m.life.Lock()
	defer m.life.Unlock()
	if m.cur.Load() != nil {
		return fmt.Errorf("restart member %s: it is running", m.name)
	}
	if err := m.relaunch(ctx); err != nil {
		return fmt.Errorf("restart member %s: %w", m.name, err)
	}
	m.c.mu.Lock()
	m.c.applyCuts()
	m.c.mu.Unlock()
	if err := m.awaitReady(ctx); err != nil {
		m.halt(m.cur.Load())
		return fmt.Errorf("restart member %s: %w", m.name, err)
	}
	return nil
}

// relaunch launches, waiting for ports that are taken for the moment, by a
// client that reconnects to itself for example.
func (m *Member) relaunch(ctx context.Context) error {
	tick := time.NewTicker(5 * pollEvery)
	defer tick.Stop()
	for {
		if m.c.closed() {
			return ErrClosed
		}
		err := m.launch()
		if err == nil || !addrInUse(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-m.c.end:
			return ErrClosed
		case <-tick.C:
		}
	}
}

// Cut stops all traffic between this member and its peers, both ways, until
// Mend. Clients still reach it.
func (m *Member) Cut() { m.setCut(true) }

// Mend ends a Cut.
func (m *Member) Mend() { m.setCut(false) }

func (m *Member) setCut(cut bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.cut = cut
	m.c.applyCuts()
}

// launch starts the server without waiting until it serves. Callers hold
// m.life, or are alone with m.
func (m *Member) launch() (err error) {
	r := &running{serving: make(chan struct{}), calls: newHandlers()}
	// etcd panics on a data directory that it cannot make sense of.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("start member on %s: %v", m.dir(), p)
		}
	}()
	cfg := m.etcdConfig()
	cfg.GRPCAdditionalServerOptions = r.calls.options()
	cfg.ServiceRegister = func(s *grpc.Server) {
		r.grpc = s
		close(r.serving)
	}
	r.etcd, err = embed.StartEtcd(cfg)
	switch {
	case err == nil:
		m.cur.Store(r)
		return nil
	case addrInUse(err) && failedOn(err, m.clientAddr):
		return fmt.Errorf("listen for clients on %s: %w: stop the program that listens there or choose another address (Config.ClientAddr, --client-addr)", m.clientAddr, err)
	case failedOn(err, m.clientAddr):
		return fmt.Errorf("listen for clients on %s (Config.ClientAddr, --client-addr): %w", m.clientAddr, err)
	default:
		return fmt.Errorf("start member on %s: %w", m.dir(), err)
	}
}

// awaitReady blocks until the launched member serves clients.
func (m *Member) awaitReady(ctx context.Context) error {
	r := m.cur.Load()
	select {
	case <-r.serving:
		return nil
	case err := <-r.etcd.Err():
		return fmt.Errorf("serve: %w", err)
	case <-r.etcd.Server.StopNotify():
		return fmt.Errorf("serve: %w", errNotRunning)
	case <-ctx.Done():
		return fmt.Errorf("wait until member %s serves: %w", m.name, context.Cause(ctx))
	case <-m.c.end:
		return ErrClosed
	}
}

// drain lets calls in flight finish, for drainGrace at most.
func (r *running) drain() {
	select {
	case <-r.serving:
	default:
		return
	}
	cut := time.AfterFunc(drainGrace, r.grpc.Stop)
	defer cut.Stop()
	r.grpc.GracefulStop()
}

// halt ends r now and joins its goroutines. Callers hold m.life.
//
// The order matters. Closing client connections first keeps etcd's own Close
// from waiting seconds for watch streams, and calls from using storage that is
// closed. Stopping raft before Close keeps it
// from waiting for ever on a server that never became ready.
func (m *Member) halt(r *running) {
	m.cur.Store(nil)
	select {
	case <-r.serving:
		r.grpc.Stop()
		r.calls.end()
	default:
	}
	r.etcd.Server.HardStop()
	r.etcd.Close()
}

func (m *Member) dir() string { return filepath.Join(m.c.dir, m.name) }

func (m *Member) scheme() string {
	if m.c.cfg.TLS != nil {
		return "https"
	}
	return "http"
}

func (m *Member) etcdConfig() *embed.Config {
	own := m.c.cfg
	cfg := embed.NewConfig()
	cfg.Name = m.name
	cfg.Dir = m.dir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.c.lg.Named(m.name))
	// A second client of its own per member, for JSON over HTTP that nobody here uses.
	cfg.EnableGRPCGateway = false

	client := url.URL{Scheme: m.scheme(), Host: m.clientAddr}
	cfg.ListenClientUrls = []url.URL{client}
	client.Host = dialable(m.clientAddr)
	cfg.AdvertiseClientUrls = []url.URL{client}
	peer := url.URL{Scheme: "http", Host: m.peerAddr}
	cfg.ListenPeerUrls = []url.URL{peer}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = m.c.initialCluster()

	if own.Fast {
		cfg.TickMs, cfg.ElectionMs = 50, 500
		// A login at the default cost takes longer than short tokens and leases live,
		// under the race detector.
		cfg.BcryptCost = 4
	}
	if own.CompactAfter > 0 {
		cfg.AutoCompactionMode = embed.CompactorModePeriodic
		cfg.AutoCompactionRetention = own.CompactAfter.String()
	}
	cfg.QuotaBackendBytes = own.QuotaBackendBytes
	if own.AuthTokenTTL > 0 {
		cfg.AuthTokenTTL = uint(own.AuthTokenTTL / time.Second)
	}
	if t := own.TLS; t != nil {
		cfg.ClientTLSInfo = transport.TLSInfo{
			CertFile: t.CertFile, KeyFile: t.KeyFile,
			TrustedCAFile: t.CAFile, ClientCertAuth: t.ClientCertAuth,
		}
	}
	return cfg
}

func (c *Cluster) initialCluster() string {
	parts := make([]string, 0, len(c.members))
	for _, m := range c.members {
		parts = append(parts, m.name+"=http://"+m.peerAddr)
	}
	return strings.Join(parts, ",")
}

func (c *Cluster) closed() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}
