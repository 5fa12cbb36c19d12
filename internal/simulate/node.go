package simulate

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/faultproxy"
)

// node is what one incarnation of an agent or dispatcher runs on: its network, its
// client, its clock, and its life.
type node struct {
	name   string
	proxy  *faultproxy.Proxy
	client *clientv3.Client
	clock  clock

	life context.Context // ends with the node's death, or with close
	kill context.CancelFunc
	dead chan struct{} // closed by crash
	once sync.Once
}

// dialTimeout bounds connecting. It is generous, since the machine may be busy.
const dialTimeout = 10 * time.Second

// newNode connects through a proxy of its own. It must be closed.
func newNode(ctx context.Context, endpoint, name string, opts ...grpc.DialOption) (*node, error) {
	proxy, err := faultproxy.New(endpoint)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{proxy.Endpoint()}, Logger: zap.NewNop(), DialTimeout: dialTimeout, DialOptions: opts,
	})
	if err != nil {
		_ = proxy.Close()
		return nil, err
	}
	n := &node{name: name, proxy: proxy, client: client, dead: make(chan struct{})}
	n.life, n.kill = context.WithCancel(ctx)
	return n, nil
}

// crash ends the node as the death of its process would: from this moment on nothing
// of it reaches etcd, and nothing is revoked or released.
func (n *node) crash() {
	n.once.Do(func() {
		n.proxy.Refuse()
		n.die()
	})
}

// die ends the node whose connections are cut already.
func (n *node) die() {
	close(n.dead)
	n.kill()
	_ = n.client.Close() // whatever it says, its connections are gone
}

// crashed tells whether the node is dead.
func (n *node) crashed() bool {
	select {
	case <-n.dead:
		return true
	default:
		return false
	}
}

// freeze stops the node's network and its clock, so that it neither hears of the
// time that passes nor of anything else. Whoever calls it holds the handler.
func (n *node) freeze() {
	n.clock.stop()
	n.proxy.Pause()
}

// wake lets the node go on. Its clock jumps to what time it is.
func (n *node) wake() {
	n.clock.resume()
	n.proxy.Heal()
}

// close ends the node in order. Whoever used it has stopped.
func (n *node) close() {
	n.kill()
	_ = n.client.Close()
	_ = n.proxy.Close()
}

// pause waits for d of the node's life; false means that the node died first, or ctx
// ended.
func (n *node) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-n.life.Done():
		return false
	}
}

// clock reads the process's clocks, and stands still while its node is frozen, as it
// does for whoever cannot look at it. The zero value runs.
type clock struct {
	mu      sync.Mutex
	stopped time.Time // zero while it runs
}

// born is the fixed moment that readings count from.
var born = time.Now()

func (c *clock) read() (mono time.Duration, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.stopped
	if now.IsZero() {
		now = time.Now()
	}
	return now.Sub(born), now
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Now()
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Time{}
}
