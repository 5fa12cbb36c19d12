//go:build unix

package leasectl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// etcd falls silent while a command runs under a lock: the command is gone, however stubborn, before anybody else can
// have the lock.
func TestLockOfASilentEtcd(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	proxy, err := faultproxy.New(etcd.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "leasectl", "lock", "l", "--ttl", "5s", "--root", "/silent/", "--endpoints", proxy.Endpoint(),
		"--dial-timeout", "2s", "--", "sh", "-c", `trap "" TERM; echo $$; while :; do sleep 0.1; done`)
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	watch := client.Watch(ctx, "/silent/sessions/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	proxy.Pause()
	<-watch // the lease has ended
	ended := time.Now()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Logf("the command was there when the lease ended: %v (only a machine that stood still may show that)", err)
	}
	err = cmd.Wait()
	var died *exec.ExitError
	if !errors.As(err, &died) || died.ExitCode() != exit.Lost {
		t.Errorf("got %v, want exit code %d; it said %s", err, exit.Lost, &said)
	}
	t.Logf("leasectl ended %v after the lease; it said %s", time.Since(ended), &said)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the command is still there: %v", err)
	}
}

// Who waits in line keeps waiting over an outage that ends his session.
func TestLockWaitsOverAnOutage(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	proxy, err := faultproxy.New(etcd.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	s, err := coord.OpenSession(ctx, client, coord.SessionConfig{Root: "/outage/", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	lock := coord.NewLock(s, "l")
	h, err := lock.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	waiters := func(enough func([]string) bool) string {
		t.Helper()
		for {
			st, err := lock.State(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if enough(st.Waiters) {
				return strings.Join(st.Waiters, " ")
			}
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "leasectl", "lock", "l", "--ttl", "5s", "--root", "/outage/", "--endpoints", proxy.Endpoint(),
		"--dial-timeout", "10s", "--", "sh", "-c", "exit 42")
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := waiters(func(w []string) bool { return len(w) == 1 })
	proxy.Pause()
	waiters(func(w []string) bool { return len(w) == 0 })
	proxy.Heal()
	if again := waiters(func(w []string) bool { return len(w) == 1 }); again == first {
		t.Errorf("%s waits although its lease has ended", again)
	}
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 || !strings.Contains(said.String(), "standing again") {
		t.Errorf("got %v, want exit code 42; it said %s", err, &said)
	}
}
