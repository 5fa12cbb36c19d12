package workqueue_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/connectivity"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// An etcd that does not answer is an error that says why, whoever's time was over.
func TestOpenSaysWhyEtcdDoesNotAnswer(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := deaf.Addr().String()
	if err := deaf.Close(); err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	three := etcdtest.New(t, etcdtest.Config{Members: 3})
	leaderless := three.Members()[0]
	for _, m := range three.Members()[1:] {
		m.Kill()
	}
	for name, tc := range map[string]struct {
		cfg  clientv3.Config
		want string
	}{
		"nothing listens":       {clientv3.Config{Endpoints: []string{nobody}}, "dial tcp " + nobody + ": connect: connection refused"},
		"one of two listens":    {clientv3.Config{Endpoints: []string{"http://" + nobody, "http://" + nobody}}, "connection refused"},
		"no such host":          {clientv3.Config{Endpoints: []string{"no-such-host.invalid:2379"}}, "no such host"},
		"unknown authority":     {clientv3.Config{Endpoints: []string{secure.URL}, TLS: &tls.Config{}}, "certificate signed by unknown authority"},
		"plain text to TLS":     {clientv3.Config{Endpoints: []string{secure.Listener.Addr().String()}}, "the server may expect TLS"},
		"TLS to plain text":     {clientv3.Config{Endpoints: []string{strings.Replace(etcdtest.Shared(t).Endpoints()[0], "http://", "https://", 1)}, TLS: &tls.Config{}}, "the server may speak plain text"},
		"most members are gone": {clientv3.Config{Endpoints: []string{leaderless.Endpoint()}}, "no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.Logger = zap.NewNop()
			client, err := clientv3.New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			tried(t, client)
			for caller, time := range map[string]time.Duration{"its own time": patience, "the caller's time": time.Second} {
				ctx, cancel := context.WithTimeout(t.Context(), time)
				_, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "q"})
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: got %v; want %q in it", caller, err, tc.want)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err = coord.OpenSession(ctx, client, coord.SessionConfig{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a session: got %v; want %q in it", err, tc.want)
			}
		})
	}
}

// tried waits until the client has connected, or failed to: before that nobody knows why
// there is no answer.
func tried(t *testing.T, client *clientv3.Client) {
	t.Helper()
	conn := client.ActiveConnection()
	for s := conn.GetState(); s != connectivity.Ready && s != connectivity.TransientFailure; s = conn.GetState() {
		conn.Connect()
		if !conn.WaitForStateChange(bounded(t), s) {
			t.Fatalf("the connection stays %v", s)
		}
	}
}
