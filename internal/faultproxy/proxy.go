package faultproxy

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// dialTimeout bounds the connection to the target. A target that does not
// answer by then is down as far as the client is concerned.
const dialTimeout = 5 * time.Second

// Proxy forwards TCP connections to one target. Its methods may be called
// concurrently; those that choose a mode return at once. Chunks that were on
// their way when the mode changed may still pass.
type Proxy struct {
	target, scheme string
	ln             net.Listener
	cancel         context.CancelFunc // ends accept and dials
	wg             sync.WaitGroup

	mu sync.Mutex
	// changed is closed and replaced at every change of what follows.
	changed chan struct{}
	hold    [2]bool // indexed by direction
	refuse  bool
	delay   time.Duration // of whatever passes
	closed  bool
	links   map[*link]struct{}
}

// New starts a proxy on a free loopback port before target, which is
// host:port or a URL of which scheme and host are used. The target need not
// be up. Close must be called in the end.
func New(target string) (*Proxy, error) {
	scheme := "http"
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		scheme, target = u.Scheme, u.Host
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("proxy to %q: want host:port or a URL: %w", target, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{target: target, scheme: scheme, ln: ln, changed: make(chan struct{}), links: map[*link]struct{}{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.wg.Go(func() { p.accept(ctx) })
	return p, nil
}

// Addr returns the host:port that the proxy listens on.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Endpoint returns Addr as a URL with the scheme of the target, http if it
// had none.
func (p *Proxy) Endpoint() string { return p.scheme + "://" + p.Addr() }

// Heal lets everything pass from now on, kept bytes first.
func (p *Proxy) Heal() { p.set(false, false, false) }

// Slow lets everything pass from now on, each way late by d to 2d. How much
// passes per second is not limited.
func (p *Proxy) Slow(d time.Duration) {
	p.set(false, false, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	p.bump()
}

// Pause keeps all bytes, both ways. Connections can still be made.
func (p *Proxy) Pause() { p.set(true, true, false) }

// PauseRequests keeps what clients send and lets answers pass.
func (p *Proxy) PauseRequests() { p.set(true, false, false) }

// PauseAnswers keeps what the server sends and lets requests pass.
func (p *Proxy) PauseAnswers() { p.set(false, true, false) }

// Refuse cuts all connections, and new ones as soon as they are made. Kept
// bytes are lost, those of severed connections excepted.
func (p *Proxy) Refuse() { p.set(false, false, true) }

func (p *Proxy) set(requests, answers, refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = [2]bool{requests, answers}
	p.refuse, p.delay = refuse, 0
	if refuse {
		p.cutLocked(false)
	}
	p.bump()
}

// Drop cuts the connections that exist, severed ones included: kept bytes are
// lost, in both directions. New connections follow the mode in force.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked(true)
}

// cutLocked cuts all links, severed ones only on demand.
func (p *Proxy) cutLocked(severed bool) {
	for l := range p.links {
		if severed || !l.severed {
			l.cut()
		}
	}
	p.bump()
}

// Sever cuts the client's side of the connections that exist. Requests kept
// so far stay kept, whatever the mode becomes, until Deliver; answers to them
// are discarded. Clients see their connection fail and make another.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if !l.dead && !l.severed {
			l.severed = true
			reset(l.client)
		}
	}
	p.bump()
}

// Deliver sends the requests kept for severed connections to the server and
// blocks until they are written or ctx ends. Their connections to the server
// stay open until Drop or Close, or the server would give the requests up.
func (p *Proxy) Deliver(ctx context.Context) error {
	p.mu.Lock()
	for l := range p.links {
		l.deliver = l.deliver || l.severed
	}
	p.bump()
	p.mu.Unlock()
	err := p.wait(ctx, func() bool {
		for l := range p.links {
			if q := l.queues[requests]; l.deliver && !l.dead && (len(q.buf) > 0 || q.writing) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("deliver late requests: %w", err)
	}
	return nil
}

// Held returns how many bytes of answers are held back now: 0 when answers
// pass.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := p.heldLocked(answers)
	return n
}

// WaitHeld blocks until at least n bytes of answers are held back, or ctx
// ends. See WaitAnswers for waiting until a call was answered.
func (p *Proxy) WaitHeld(ctx context.Context, n int) error {
	return named("wait for held bytes", p.wait(ctx, func() bool { b, _ := p.heldLocked(answers); return b >= n }))
}

// WaitHeldRequests is WaitHeld for bytes of requests, those of severed
// connections included.
func (p *Proxy) WaitHeldRequests(ctx context.Context, n int) error {
	return named("wait for held bytes of requests", p.wait(ctx, func() bool { b, _ := p.heldLocked(requests); return b >= n }))
}

// WaitAnswers blocks until at least n complete answers of unary gRPC calls are
// held back, or ctx ends. Messages of open streams do not count.
func (p *Proxy) WaitAnswers(ctx context.Context, n int) error {
	return named("wait for held answers", p.wait(ctx, func() bool { _, c := p.heldLocked(answers); return c >= n }))
}

// WaitRequests blocks until at least n complete requests of unary gRPC calls
// are held back, or ctx ends. Those of severed connections count until they
// are delivered.
func (p *Proxy) WaitRequests(ctx context.Context, n int) error {
	return named("wait for held requests", p.wait(ctx, func() bool { _, c := p.heldLocked(requests); return c >= n }))
}

// heldLocked counts the bytes and ended streams held back in direction d.
func (p *Proxy) heldLocked(d direction) (bytes, ended int) {
	for l := range p.links {
		if !l.dead && p.holds(l, d) {
			bytes += len(l.queues[d].buf)
			ended += l.queues[d].ended
		}
	}
	return bytes, ended
}

// holds reports whether bytes of l in direction d must stay.
func (p *Proxy) holds(l *link, d direction) bool {
	if l.severed {
		return d == requests && !l.deliver
	}
	return p.hold[d]
}

// wait blocks until cond, which is called with p.mu held, is true.
func (p *Proxy) wait(ctx context.Context, cond func() bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond() {
		if p.closed {
			return net.ErrClosed
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			p.mu.Lock()
			return context.Cause(ctx)
		}
		p.mu.Lock()
	}
	return nil
}

// bump wakes everything that waits for a change. It needs p.mu.
func (p *Proxy) bump() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close cuts all connections, stops listening and blocks until every
// goroutine of the proxy has ended. It may be called again.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	p.cutLocked(true)
	p.mu.Unlock()
	// An error means that it was closed before.
	_ = p.ln.Close()
	p.wg.Wait()
	return nil
}

func named(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}
