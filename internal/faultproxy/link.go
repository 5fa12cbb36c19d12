package faultproxy

import (
	"context"
	"net"
	"time"
)

// direction tells the two halves of a connection apart.
type direction int

const (
	requests direction = iota // client to server
	answers                   // server to client
)

// maxQueue bounds what one direction of one link keeps. A reader that finds
// it full stops reading, and TCP tells the sender.
const maxQueue = 4 << 20

// link is one client connection with its connection to the target. All fields
// but the connections are guarded by Proxy.mu.
type link struct {
	client, server net.Conn
	queues         [2]queue
	dead           bool // both sides cut
	severed        bool // client's side cut by Sever
	deliver        bool // severed, and its requests may go
}

// queue holds bytes that were read and not written yet.
type queue struct {
	buf     []byte
	ended   int  // streams that end within buf
	eof     bool // the sender has closed its half
	writing bool // taken from buf, not yet written
	frames  frameScanner
}

// cut ends both connections at once. It needs Proxy.mu.
func (l *link) cut() {
	l.dead = true
	reset(l.client)
	if l.server != nil {
		reset(l.server)
	}
}

// reset closes c so that the other end sees a failure, not an orderly end.
func reset(c net.Conn) {
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = c.Close()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			// Out of file descriptors, most likely: give the machine a moment.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		p.wg.Go(func() { p.serve(ctx, c) })
	}
}

// serve connects c to the target and moves bytes until both halves are done.
func (p *Proxy) serve(ctx context.Context, c net.Conn) {
	l := &link{client: c}
	l.queues[requests].frames.skip = http2Preface
	defer p.forget(l)
	if !p.register(l) {
		return
	}
	d := net.Dialer{Timeout: dialTimeout}
	s, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil || !p.connected(l, s) {
		return
	}
	p.wg.Go(func() { p.read(l, requests, c) })
	p.wg.Go(func() { p.read(l, answers, s) })
	done := make(chan struct{})
	p.wg.Go(func() { p.write(l, requests, s); close(done) })
	p.write(l, answers, c)
	<-done

	// Not a reset: it would discard what the kernel has not sent yet.
	_, _ = c.Close(), s.Close()
}

// register makes l subject to what happens to the proxy, and reports whether
// it is wanted. A connection that Drop finds before its target is dialled is
// cut like any other.
func (p *Proxy) register(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	return !p.closed && !p.refuse
}

// connected gives l its other side, and reports whether l is still alive.
func (p *Proxy) connected(l *link, s net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = s
	if l.dead || l.severed {
		l.cut()
	}
	return !l.dead
}

// forget ends whatever of l is left.
func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.cut()
	delete(p.links, l)
	p.bump()
}

// read fills the queue of direction d from src.
func (p *Proxy) read(l *link, d direction, src net.Conn) {
	q := &l.queues[d]
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		if !(l.severed && d == answers) {
			q.buf = append(q.buf, buf[:n]...)
			q.ended += q.frames.scan(buf[:n])
		}
		if err != nil {
			q.eof = true
			if l.severed && d == answers {
				l.cut() // nobody is left to deliver to
			}
		}
		p.bump()
		for len(q.buf) >= maxQueue && !l.dead && err == nil {
			p.await()
		}
		over := err != nil || l.dead
		p.mu.Unlock()
		if over {
			return
		}
	}
}

// write empties the queue of direction d into dst while it may.
func (p *Proxy) write(l *link, d direction, dst net.Conn) {
	q := &l.queues[d]
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for delayed := false; !l.dead; delayed = true {
			for !l.dead && (p.holds(l, d) || len(q.buf) == 0 && (!q.eof || l.severed)) {
				p.await()
			}
			if delayed {
				break
			}
			p.dawdle(l) // what arrives meanwhile goes along
		}
		if l.dead {
			return
		}
		if len(q.buf) == 0 { // eof
			closeWrite(dst)
			return
		}
		b := q.buf
		q.buf, q.ended, q.writing = nil, 0, true
		p.mu.Unlock()
		_, err := dst.Write(b)
		p.mu.Lock()
		q.writing = false
		p.bump()
		if err != nil && !(l.severed && d == answers) {
			l.cut()
			return
		}
	}
}

// dawdle releases p.mu for the delay in force, or until that is over.
func (p *Proxy) dawdle(l *link) {
	if p.delay == 0 {
		return
	}
	late := time.NewTimer(p.delay)
	defer late.Stop()
	for !l.dead && p.delay > 0 {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-late.C:
			p.mu.Lock()
			return
		case <-changed:
			p.mu.Lock()
		}
	}
}

// await releases p.mu until something changes.
func (p *Proxy) await() {
	changed := p.changed
	p.mu.Unlock()
	<-changed
	p.mu.Lock()
}

// closeWrite passes the end of one half on.
func closeWrite(c net.Conn) {
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.CloseWrite()
	}
}
