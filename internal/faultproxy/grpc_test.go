package faultproxy_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/faultproxy"
)

// counting is a gRPC service with an effect: it counts its unary calls.
type counting struct {
	healthpb.UnimplementedHealthServer
	calls atomic.Int64
	seen  chan struct{}
}

func (s *counting) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.calls.Add(1)
	s.seen <- struct{}{}
	return &healthpb.HealthCheckResponse{}, nil
}

func grpcServer(t *testing.T) (*counting, *faultproxy.Proxy, healthpb.HealthClient) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	svc := &counting{seen: make(chan struct{}, 10)}
	gs := grpc.NewServer()
	healthpb.RegisterHealthServer(gs, svc)
	done := make(chan error, 1)
	go func() { done <- gs.Serve(ln) }()
	t.Cleanup(func() { gs.Stop(); <-done })
	p := proxy(t, ln.Addr().String())
	conn, err := grpc.NewClient(p.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return svc, p, healthpb.NewHealthClient(conn)
}

func check(t *testing.T, cl healthpb.HealthClient) chan error {
	done := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := cl.Check(ctx, &healthpb.HealthCheckRequest{})
		done <- err
	}()
	return done
}

func TestAnswerLostAfterTheCallTookEffect(t *testing.T) {
	svc, p, cl := grpcServer(t)
	if err := <-check(t, cl); err != nil {
		t.Fatal(err)
	}
	p.PauseAnswers()
	call := check(t, cl)
	if err := p.WaitAnswers(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if got := svc.calls.Load(); got != 2 {
		t.Fatalf("an answer is held after %d calls, want 2", got)
	}
	p.Drop()
	if err := <-call; status.Code(err) != codes.Unavailable {
		t.Fatalf("call whose answer was dropped: got %v, want Unavailable", err)
	}
	p.Heal()
	if err := <-check(t, cl); err != nil {
		t.Fatalf("call after Heal: %v", err)
	}
}

func TestRequestArrivesAfterItsSenderGaveUp(t *testing.T) {
	svc, p, cl := grpcServer(t)
	if err := <-check(t, cl); err != nil {
		t.Fatal(err)
	}
	<-svc.seen
	p.PauseRequests()
	call := check(t, cl)
	if err := p.WaitRequests(within(t), 1); err != nil {
		t.Fatal(err)
	}
	p.Sever()
	if err := <-call; status.Code(err) != codes.Unavailable {
		t.Fatalf("severed call: got %v, want Unavailable", err)
	}
	p.Heal()
	if err := <-check(t, cl); err != nil {
		t.Fatal(err)
	}
	<-svc.seen
	if got := svc.calls.Load(); got != 2 {
		t.Fatalf("%d calls before Deliver, want 2", got)
	}
	if err := p.Deliver(within(t)); err != nil {
		t.Fatal(err)
	}
	<-svc.seen
}

func TestBlackHoleHoldsACallUntilHeal(t *testing.T) {
	svc, p, cl := grpcServer(t)
	if err := <-check(t, cl); err != nil {
		t.Fatal(err)
	}
	p.Pause()
	call := check(t, cl)
	if err := p.WaitRequests(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if got := svc.calls.Load(); got != 1 {
		t.Fatalf("server got %d calls through a black hole, want 1 from before", got)
	}
	p.Heal()
	if err := <-call; err != nil {
		t.Fatal(err)
	}
}
