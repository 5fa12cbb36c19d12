package embedetcd_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

func TestOneMemberServesAndGrantsOneSecondLeases(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true})
	if got := len(c.Endpoints()); got != 1 {
		t.Fatalf("got %d endpoints, want 1", got)
	}
	if !strings.HasPrefix(c.Endpoints()[0], "http://127.0.0.1:") {
		t.Errorf("got endpoint %q, want one on loopback", c.Endpoints()[0])
	}
	if got, want := c.Leader(), c.Members()[0]; got != want {
		t.Errorf("got leader %v, want the only member", got)
	}
	cl := client(t, c.Endpoints()...)
	put(t, cl, "k", "v")
	wantValue(t, cl, "k", "v")
	lease, err := cl.Grant(within(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if lease.TTL != 1 {
		t.Errorf("asked for a lease of 1 s, got %d s", lease.TTL)
	}
}

func TestCloseRemovesTemporaryDirAndMayBeRepeated(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true})
	if _, err := os.Stat(c.Dir()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(c.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary directory after Close: got %v, want it gone", err)
	}
	if _, err := c.WaitLeader(within(t)); !errors.Is(err, embedetcd.ErrClosed) {
		t.Errorf("wait for a leader after Close: got %v, want ErrClosed", err)
	}
	if err := c.Members()[0].Restart(within(t)); !errors.Is(err, embedetcd.ErrClosed) {
		t.Errorf("restart after Close: got %v, want ErrClosed", err)
	}
}

func TestStartAgainOnItsDirKeepsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	c := start(t, embedetcd.Config{Dir: dir, Fast: true})
	put(t, client(t, c.Endpoints()...), "k", "v")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = start(t, embedetcd.Config{Dir: dir, Fast: true})
	wantValue(t, client(t, c.Endpoints()...), "k", "v")
	if got := c.Dir(); got != dir {
		t.Errorf("got dir %s, want %s", got, dir)
	}
}

func TestRestartKeepsDataAndPorts(t *testing.T) {
	for name, end := range map[string]func(*embedetcd.Member){
		"Stop": (*embedetcd.Member).Stop,
		"Kill": (*embedetcd.Member).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, embedetcd.Config{Fast: true})
			m, before := c.Members()[0], c.Endpoints()[0]
			cl := client(t, before)
			put(t, cl, "k", name)
			end(m)
			end(m) // a stopped member is left alone
			if m.Server() != nil || c.Leader() != nil {
				t.Error("a stopped member still has a server or leads")
			}
			if err := m.Restart(within(t)); err != nil {
				t.Fatal(err)
			}
			if got := c.Endpoints()[0]; got != before {
				t.Errorf("got endpoint %s after restart, want %s", got, before)
			}
			wantValue(t, cl, "k", name)
			if err := m.Restart(within(t)); err == nil {
				t.Error("restart of a running member: got nil, want an error")
			}
		})
	}
}

// etcd's own shutdown waits for open watch streams until its request timeout
// of more than 5 s. Ours must not, or tests that stop servers crawl.
func TestStopDoesNotWaitForWatchesAndRenewals(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true})
	cl := client(t, c.Endpoints()...)
	w := cl.Watch(within(t), "k", clientv3.WithCreatedNotify())
	<-w
	lease, err := cl.Grant(within(t), 5)
	if err != nil {
		t.Fatal(err)
	}
	alive, err := cl.KeepAlive(within(t), lease.ID)
	if err != nil {
		t.Fatal(err)
	}
	<-alive
	began := time.Now()
	c.Members()[0].Stop()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("Stop took %v with a watch open", took)
	}
}

func TestClientAddrInUseNamesTheWayOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	_, err = embedetcd.Start(within(t), embedetcd.Config{Dir: dir, ClientAddr: ln.Addr().String(), Fast: true})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("got %v, want EADDRINUSE", err)
	}
	for _, want := range []string{ln.Addr().String(), "Config.ClientAddr", "--client-addr"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %s", err, want)
		}
	}
	// The failure left the directory unlocked and usable.
	start(t, embedetcd.Config{Dir: dir, Fast: true})
}

func TestClientAddrIsUsed(t *testing.T) {
	// Port 0 stands for a free one, and no host for loopback.
	c := start(t, embedetcd.Config{ClientAddr: ":0", Fast: true})
	ep := strings.TrimPrefix(c.Endpoints()[0], "http://")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = start(t, embedetcd.Config{ClientAddr: ep, Fast: true})
	if got := c.Endpoints()[0]; got != "http://"+ep {
		t.Errorf("got endpoint %s, want http://%s", got, ep)
	}
	put(t, client(t, ep), "k", "v")
}

func TestDirInUseIsRefusedAtOnce(t *testing.T) {
	c := start(t, embedetcd.Config{Dir: t.TempDir(), Fast: true})
	_, err := embedetcd.Start(within(t), embedetcd.Config{Dir: c.Dir(), Fast: true})
	if err == nil || !strings.Contains(err.Error(), "used by another server") {
		t.Fatalf("got %v, want a refusal that says the directory is in use", err)
	}
	put(t, client(t, c.Endpoints()...), "k", "v")
}

func TestBadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		cfg  embedetcd.Config
		want string
	}{
		{"members", embedetcd.Config{Members: 2}, "want 1 or 3"},
		{"no port", embedetcd.Config{ClientAddr: "127.0.0.1"}, "want host:port"},
		{"port", embedetcd.Config{ClientAddr: "127.0.0.1:99999"}, "port"},
		{"host", embedetcd.Config{ClientAddr: "example.com:2379"}, "IP address"},
		{"ttl", embedetcd.Config{AuthTokenTTL: time.Millisecond}, "whole seconds"},
		{"tls", embedetcd.Config{TLS: &embedetcd.TLS{}}, "CertFile"},
		{"tls files", embedetcd.Config{TLS: &embedetcd.TLS{CertFile: file, KeyFile: file}}, "start etcd"},
		{"dir", embedetcd.Config{Dir: file}, "--data-dir"},
		{"dir not empty", embedetcd.Config{Dir: full, Members: 3}, "not empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := embedetcd.Start(within(t), tc.cfg)
			if err == nil {
				c.Close()
				t.Fatal("got nil, want an error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to mention %q", err, tc.want)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embedetcd.Start(ctx, embedetcd.Config{Fast: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// A log entry triggers the end of ctx in the middle of the start, before the
// member can be ready.
func TestStartCancelledMidwayLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	core, _ := observer.New(zap.InfoLevel)
	lg := zap.New(core, zap.Hooks(func(zapcore.Entry) error { cancel(); return nil }))
	dir := t.TempDir()
	_, err := embedetcd.Start(ctx, embedetcd.Config{Dir: dir, Members: 3, Logger: lg})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
}

func TestLoggerReceivesServerLogs(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	start(t, embedetcd.Config{Fast: true, Logger: zap.New(core)})
	if logs.Len() == 0 {
		t.Error("got no log entries, want the server's")
	}
}
