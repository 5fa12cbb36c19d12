package leasectl

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// probe connects with these settings and closes again.
func probe(ctx context.Context, s settings, env map[string]string) error {
	if s.root == "" {
		s.root = defaultRoot
	}
	if s.dialTimeout == 0 {
		s.dialTimeout = 5 * time.Second
	}
	t, err := s.target(ctx, func(name string) string { return env[name] })
	if err != nil {
		return err
	}
	c, err := openAt(ctx, t)
	if err != nil {
		return err
	}
	return c.Close()
}

// wantFailure checks code, cause and time of a probe that must fail.
func wantFailure(t *testing.T, s settings, env map[string]string, code int, cause string) {
	t.Helper()
	start := time.Now()
	err := probe(t.Context(), s, env)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("%s: error after %v, want it within 5 s", s.endpoints, took)
	}
	if err == nil {
		t.Errorf("%s: connected, want %q", s.endpoints, cause)
		return
	}
	if got, try := explain(err); got != code || try == "" || !strings.Contains(errorText(err), cause) {
		t.Errorf("%s: exit code %d, %q, try %q; want %d, %q and something to try", s.endpoints, got, errorText(err), try, code, cause)
	}
	if strings.Contains(errorText(err), "deadline") {
		t.Errorf("%s: the error speaks of a deadline: %q", s.endpoints, errorText(err))
	}
}

func TestConnectAuth(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	endpoint := etcd.Endpoints()[0]
	enableAuth(t, endpoint)

	s := settings{endpoints: endpoint}
	wantFailure(t, s, nil, exitAuth, "user name is empty")
	s.user = "root"
	wantFailure(t, s, map[string]string{"LEASECTL_PASSWORD": "wrong"}, exitAuth, "invalid user ID or password")
	if err := probe(t.Context(), s, map[string]string{"LEASECTL_PASSWORD": "secret", "ETCDCTL_PASSWORD": "wrong"}); err != nil {
		t.Errorf("password in LEASECTL_PASSWORD: %v", err)
	}
	s.passwordFile = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(s.passwordFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), s, map[string]string{"LEASECTL_PASSWORD": "wrong"}); err != nil {
		t.Errorf("password in a file: %v", err)
	}
	s = settings{endpoints: endpoint, user: "root:secret", origin: map[string]string{"user": "ETCDCTL_USER"}}
	if err := probe(t.Context(), s, nil); err != nil {
		t.Errorf("name and password in ETCDCTL_USER: %v", err)
	}
	// Whoever may not read the key that is probed has been answered.
	s.user = "guest:secret"
	if err := probe(t.Context(), s, nil); err != nil {
		t.Errorf("user without any role: %v", err)
	}
}

func enableAuth(t *testing.T, endpoint string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()
	for _, user := range []string{"root", "guest"} {
		if _, err := client.UserAdd(ctx, user, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestConnectTLS(t *testing.T) {
	ca := clitest.NewAuthority(t)
	cert, key := ca.Issue(t, "server", time.Hour)
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, TLS: &embedetcd.TLS{CertFile: cert, KeyFile: key}})
	endpoint := etcd.Endpoints()[0]
	plain := "http" + strings.TrimPrefix(endpoint, "https")

	if err := probe(t.Context(), settings{endpoints: endpoint, cacert: ca.File}, nil); err != nil {
		t.Errorf("known authority: %v", err)
	}
	if err := probe(t.Context(), settings{endpoints: strings.TrimPrefix(endpoint, "https://"), cacert: ca.File}, nil); err != nil {
		t.Errorf("no scheme, but a CA: %v", err)
	}
	wantFailure(t, settings{endpoints: plain}, nil, exitUnreachable, "the server speaks TLS, but the URL says http")
	wantFailure(t, settings{endpoints: endpoint}, nil, exitUnreachable, "signed by an unknown authority")
	wantFailure(t, settings{endpoints: plain, cacert: ca.File}, nil, exitUsage, "plain text")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "https://"))
	wantFailure(t, settings{endpoints: "https://localhost:" + port, cacert: ca.File}, nil, exitUnreachable, "for another name")
}

func TestConnectClientCertificate(t *testing.T) {
	ca, stranger := clitest.NewAuthority(t), clitest.NewAuthority(t)
	cert, key := ca.Issue(t, "server", time.Hour)
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true,
		TLS: &embedetcd.TLS{CertFile: cert, KeyFile: key, CAFile: ca.File, ClientCertAuth: true}})

	s := settings{endpoints: etcd.Endpoints()[0], cacert: ca.File}
	wantFailure(t, s, nil, exitAuth, "demands a client certificate")
	s.cert, s.key = stranger.Issue(t, "stranger", time.Hour)
	wantFailure(t, s, nil, exitAuth, "client certificate")
	s.cert, s.key = ca.Issue(t, "ana", time.Hour)
	if err := probe(t.Context(), s, nil); err != nil {
		t.Errorf("client certificate of the right authority: %v", err)
	}
}

func TestConnectExpiredCertificate(t *testing.T) {
	ca := clitest.NewAuthority(t)
	cert, key := ca.Issue(t, "server", -time.Hour)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	wantFailure(t, settings{endpoints: server.URL, cacert: ca.File}, nil, exitUnreachable, "certificate is not valid now")
}

func TestConnectToSomethingElse(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	wantFailure(t, settings{endpoints: server.URL}, nil, exitUnreachable, "not etcd's client port")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nobody else does
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := settings{endpoints: "http://" + silent.Addr().String(), dialTimeout: time.Second}
	wantFailure(t, s, nil, exitUnreachable, "accepts connections, but does not answer")
	s.endpoints = "https://" + silent.Addr().String()
	wantFailure(t, s, nil, exitUnreachable, "accepts connections, but does not answer")
}

func TestConnectWithoutLeader(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, Members: 3})
	members := etcd.Members()
	members[1].Kill()
	members[2].Kill()
	wantFailure(t, settings{endpoints: members[0].Endpoint(), dialTimeout: 3 * time.Second}, nil, exitUnreachable, "its cluster has no leader")
}

func TestConnectInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil { // it is being connected to
			cancel(&interruptError{})
			conn.Close()
		}
	}()
	err = probe(ctx, settings{endpoints: "http://" + silent.Addr().String(), dialTimeout: time.Minute}, nil)
	if code, ok := interruptCode(ctx, err); !ok || err == nil {
		t.Errorf("error %v, code %d; want an interrupt", err, code)
	}
}
