package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/internal/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within turns a hang into a failure, nothing else.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// server listens on loopback and hands every connection to serve.
func server(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func echo(c net.Conn) { io.Copy(c, c) }

func proxy(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func dial(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

func wantRead(t *testing.T, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read: got %q, %v, want %q", got, err, want)
	}
}

// wantCut checks that c ends, without a byte before.
func wantCut(t *testing.T, c net.Conn) {
	t.Helper()
	b := make([]byte, 1)
	n, err := c.Read(b)
	var ne net.Error
	if n != 0 || err == nil || errors.As(err, &ne) && ne.Timeout() {
		t.Fatalf("read on a cut connection: got %d bytes, %v, want an end", n, err)
	}
}

// wantRefused checks that a new connection fails at once or ends unused.
func wantRefused(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	wantCut(t, c)
}

func TestPassesBothWays(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	send(t, c, "hello")
	wantRead(t, c, "hello")
	if got := p.Held(); got != 0 {
		t.Errorf("held %d bytes in a healthy proxy, want 0", got)
	}
}

func TestEndpointKeepsTheScheme(t *testing.T) {
	addr := server(t, echo)
	for target, want := range map[string]string{
		addr: "http://", "http://" + addr: "http://", "https://" + addr: "https://",
	} {
		p := proxy(t, target)
		if got := p.Endpoint(); got != want+p.Addr() {
			t.Errorf("target %s: got endpoint %s, want %s", target, got, want+p.Addr())
		}
		c := dial(t, p)
		send(t, c, "x")
		wantRead(t, c, "x")
	}
	if p, err := faultproxy.New("no port"); err == nil {
		p.Close()
		t.Error("a target without port: got nil, want an error")
	}
}

func TestPauseAnswersKeepsThemUntilHeal(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	p.PauseAnswers()
	send(t, c, "abc")
	if err := p.WaitHeld(within(t), 3); err != nil {
		t.Fatal(err)
	}
	if got := p.Held(); got != 3 {
		t.Errorf("held %d bytes, want 3", got)
	}
	send(t, c, "def")
	if err := p.WaitHeld(within(t), 6); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	wantRead(t, c, "abcdef")
	if got := p.Held(); got != 0 {
		t.Errorf("held %d bytes after Heal, want 0", got)
	}
}

func TestDropLosesKeptAnswersAndLeavesTheModeAlone(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	p.PauseAnswers()
	send(t, c, "lost")
	if err := p.WaitHeld(within(t), 4); err != nil {
		t.Fatal(err)
	}
	p.Drop()
	wantCut(t, c)
	if got := p.Held(); got != 0 {
		t.Errorf("held %d bytes after Drop, want 0", got)
	}
	c = dial(t, p)
	send(t, c, "kept")
	if err := p.WaitHeld(within(t), 4); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	wantRead(t, c, "kept")
}

func TestSlowDelaysBothWaysUntilHeal(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	const late = 50 * time.Millisecond
	p.Slow(late)
	began := time.Now()
	send(t, c, "a")
	wantRead(t, c, "a")
	if took := time.Since(began); took < 2*late {
		t.Errorf("there and back took %v, want %v at least", took, 2*late)
	}
	p.Slow(time.Hour)
	send(t, c, "b")
	p.Heal()
	wantRead(t, c, "b")
	p.Slow(time.Hour)
	send(t, c, "c")
	p.Drop()
	wantCut(t, c)
}

func TestPauseHoldsRequestsOfNewConnectionsToo(t *testing.T) {
	seen := make(chan string, 1)
	p := proxy(t, server(t, func(c net.Conn) {
		b := make([]byte, 3)
		io.ReadFull(c, b)
		seen <- string(b)
		c.Write(b)
	}))
	p.Pause()
	c := dial(t, p)
	send(t, c, "req")
	// PauseRequests and PauseAnswers are the halves of Pause: with the first
	// half lifted, the request passes and its answer is what is held.
	p.PauseAnswers()
	if got := <-seen; got != "req" {
		t.Fatalf("server got %q, want req", got)
	}
	if err := p.WaitHeld(within(t), 3); err != nil {
		t.Fatal(err)
	}
	p.PauseRequests()
	wantRead(t, c, "req")
}

func TestPausedRequestsDoNotReachTheServer(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	p := proxy(t, server(t, func(c net.Conn) {
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			mu.Lock()
			got.Write(b)
			mu.Unlock()
			c.Write(b)
		}
	}))
	held, free := dial(t, p), dial(t, p)
	for _, c := range []net.Conn{held, free} {
		send(t, c, "1")
		wantRead(t, c, "1") // so the proxy knows it
	}
	for _, pause := range []func(){p.Pause, p.PauseRequests} {
		pause()
		send(t, held, "2")
	}
	p.Drop()
	wantCut(t, held)
	wantCut(t, free)
	p.Heal()
	c := dial(t, p)
	send(t, c, "3")
	wantRead(t, c, "3")
	mu.Lock()
	defer mu.Unlock()
	if got.String() != "113" {
		t.Errorf("server got %q, want 113: requests held and dropped never arrive", got.String())
	}
}

func TestRefuseCutsOldAndNewUntilHeal(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	send(t, c, "x")
	wantRead(t, c, "x")
	p.Refuse()
	wantCut(t, c)
	wantRefused(t, p)
	p.Heal()
	c = dial(t, p)
	send(t, c, "y")
	wantRead(t, c, "y")
}

func TestSeveredRequestsArriveLate(t *testing.T) {
	seen := make(chan string)
	p := proxy(t, server(t, func(c net.Conn) {
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err == nil {
			seen <- string(b)
			io.WriteString(c, "an answer that nobody waits for")
			// The connection stays usable: its end would make a server give
			// up what it has just received.
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			io.ReadFull(c, b)
		}
	}))
	c := dial(t, p)
	p.PauseRequests()
	send(t, c, "late")
	if err := p.WaitHeldRequests(within(t), 4); err != nil {
		t.Fatal(err)
	}
	p.Sever()
	wantCut(t, c)
	p.Heal()

	c = dial(t, p)
	send(t, c, "next")
	if got := <-seen; got != "next" {
		t.Fatalf("server got %q first, want next: severed requests wait for Deliver", got)
	}
	delivered := make(chan error, 1)
	go func() { delivered <- p.Deliver(within(t)) }()
	if got := <-seen; got != "late" {
		t.Fatalf("server got %q, want late", got)
	}
	if err := <-delivered; err != nil {
		t.Fatal(err)
	}
}

func TestBytesSurviveRandomPauses(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	want := make([]byte, 12<<20) // more than both queues hold
	src := rand.NewChaCha8([32]byte{1})
	src.Read(want)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; i < len(want); i += 64 << 10 {
			if _, err := c.Write(want[i : i+64<<10]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				p.Heal()
				return
			default:
			}
			[]func(){p.Pause, p.Heal, p.PauseAnswers, p.Heal, p.PauseRequests, p.Heal}[i%6]()
		}
	})
	got := make([]byte, len(want))
	_, err := io.ReadFull(c, got)
	close(stop)
	wg.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("stream differs after pauses (%v)", err)
	}
}

func TestFullQueueStopsTheSenderAndLosesNothing(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	p.PauseAnswers()
	want := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB
	var wg sync.WaitGroup
	wg.Go(func() { io.WriteString(c, want) })
	if err := p.WaitHeld(within(t), 4<<20); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	wantRead(t, c, want)
	wg.Wait()
}

func TestEndOfEitherHalfPassesBehindTheBytes(t *testing.T) {
	p := proxy(t, server(t, func(c net.Conn) {
		b, _ := io.ReadAll(c) // ends with the client's half
		c.Write(append(b, '!'))
	}))
	c := dial(t, p)
	send(t, c, "bye")
	c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "bye!" {
		t.Errorf("got %q, %v, want bye!", got, err)
	}
}

func TestTargetDownCutsTheClient(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	wantRefused(t, proxy(t, addr))
}

func TestWaitEndsWithContextAndClose(t *testing.T) {
	p := proxy(t, server(t, echo))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, wait := range map[string]func(context.Context, int) error{
		"held": p.WaitHeld, "held requests": p.WaitHeldRequests,
		"answers": p.WaitAnswers, "requests": p.WaitRequests,
	} {
		if err := wait(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", name, err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- p.WaitHeld(t.Context(), 1) }()
	p.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("wait across Close: got %v, want net.ErrClosed", err)
	}
}

func TestCloseCutsJoinsAndMayBeRepeated(t *testing.T) {
	p := proxy(t, server(t, echo))
	c := dial(t, p)
	p.Pause()
	send(t, c, "x")
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantCut(t, c)
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("dial after Close: got a connection")
	}
}
