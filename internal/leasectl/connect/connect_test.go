package connect

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
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// probe connects with these settings and closes again.
func probe(ctx context.Context, s Settings, env map[string]string) error {
	if s.Root == "" {
		s.Root = DefaultRoot
	}
	if s.DialTimeout == 0 {
		s.DialTimeout = 10 * clitest.Patience // who waits for that is noticed
	}
	t, err := s.Target(ctx, func(name string) string { return env[name] })
	if err != nil {
		return err
	}
	c, err := Open(ctx, t)
	if err != nil {
		return err
	}
	return c.Close()
}

// wantFailure checks code, cause and time of a probe that must fail.
func wantFailure(t *testing.T, s Settings, env map[string]string, code int, cause string) {
	t.Helper()
	start := time.Now()
	err := probe(t.Context(), s, env)
	if took := time.Since(start); took > clitest.Patience {
		t.Errorf("%s: error after %v, want it soon", s.Endpoints, took)
	}
	if err == nil {
		t.Errorf("%s: connected, want %q", s.Endpoints, cause)
		return
	}
	if got, try := exit.Explain(err); got != code || try == "" || !strings.Contains(exit.Text(err), cause) {
		t.Errorf("%s: exit code %d, %q, try %q; want %d, %q and something to try", s.Endpoints, got, exit.Text(err), try, code, cause)
	}
	if strings.Contains(exit.Text(err), "deadline") {
		t.Errorf("%s: the error speaks of a deadline: %q", s.Endpoints, exit.Text(err))
	}
}

func TestConnectAuth(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	endpoint := etcd.Endpoints()[0]
	enableAuth(t, endpoint)

	s := Settings{Endpoints: endpoint}
	wantFailure(t, s, nil, exit.Auth, "user name is empty")
	s.User = "root"
	wantFailure(t, s, map[string]string{"LEASECTL_PASSWORD": "wrong"}, exit.Auth, "invalid user ID or password")
	if err := probe(t.Context(), s, map[string]string{"LEASECTL_PASSWORD": "secret", "ETCDCTL_PASSWORD": "wrong"}); err != nil {
		t.Errorf("password in LEASECTL_PASSWORD: %v", err)
	}
	s.PasswordFile = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(s.PasswordFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), s, map[string]string{"LEASECTL_PASSWORD": "wrong"}); err != nil {
		t.Errorf("password in a file: %v", err)
	}
	s = Settings{Endpoints: endpoint, User: "root:secret", Origin: map[string]string{"user": "ETCDCTL_USER"}}
	if err := probe(t.Context(), s, nil); err != nil {
		t.Errorf("name and password in ETCDCTL_USER: %v", err)
	}
	// Whoever may not read the key that is probed has been answered.
	s.User = "guest:secret"
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

	if err := probe(t.Context(), Settings{Endpoints: endpoint, cacert: ca.File}, nil); err != nil {
		t.Errorf("known authority: %v", err)
	}
	if err := probe(t.Context(), Settings{Endpoints: strings.TrimPrefix(endpoint, "https://"), cacert: ca.File}, nil); err != nil {
		t.Errorf("no scheme, but a CA: %v", err)
	}
	wantFailure(t, Settings{Endpoints: plain}, nil, exit.Unreachable, "the server speaks TLS, but the URL says http")
	wantFailure(t, Settings{Endpoints: endpoint}, nil, exit.Unreachable, "signed by an unknown authority")
	wantFailure(t, Settings{Endpoints: plain, cacert: ca.File}, nil, exit.Usage, "plain text")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "https://"))
	wantFailure(t, Settings{Endpoints: "https://localhost:" + port, cacert: ca.File}, nil, exit.Unreachable, "for another name")
}

func TestConnectClientCertificate(t *testing.T) {
	ca, stranger := clitest.NewAuthority(t), clitest.NewAuthority(t)
	cert, key := ca.Issue(t, "server", time.Hour)
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true,
		TLS: &embedetcd.TLS{CertFile: cert, KeyFile: key, CAFile: ca.File, ClientCertAuth: true}})

	s := Settings{Endpoints: etcd.Endpoints()[0], cacert: ca.File}
	wantFailure(t, s, nil, exit.Auth, "demands a client certificate")
	s.cert, s.key = stranger.Issue(t, "stranger", time.Hour)
	wantFailure(t, s, nil, exit.Auth, "client certificate")
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
	wantFailure(t, Settings{Endpoints: server.URL, cacert: ca.File}, nil, exit.Unreachable, "certificate is not valid now")
}

func TestConnectToSomethingElse(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	wantFailure(t, Settings{Endpoints: server.URL}, nil, exit.Unreachable, "not etcd's client port")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nobody else does
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := Settings{Endpoints: "http://" + silent.Addr().String(), DialTimeout: time.Second}
	wantFailure(t, s, nil, exit.Unreachable, "accepts connections, but does not answer")
	s.Endpoints = "https://" + silent.Addr().String()
	wantFailure(t, s, nil, exit.Unreachable, "accepts connections, but does not answer")
}

// Servers that are no etcd, and etcd under the wrong scheme, are told apart by what they do.
func TestConnectSaysWhatIsThere(t *testing.T) {
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				go func() {
					defer conn.Close()
					serve(conn)
				}()
			}
		}()
		return l.Addr().String()
	}
	ca := clitest.NewAuthority(t)
	pair, err := tls.LoadX509KeyPair(ca.Issue(t, "server", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	serveTLS := func(protocols ...string) func(net.Conn) {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}
		return func(conn net.Conn) {
			secure := tls.Server(conn, cfg)
			if _, err := secure.Read(make([]byte, 16)); err == nil {
				_, _ = io.WriteString(secure, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}
		}
	}
	hangsUp := listen(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 16)) })
	banner := listen(func(conn net.Conn) {
		_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	web, webH1 := listen(serveTLS()), listen(serveTLS("http/1.1"))
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints()[0]

	for endpoint, want := range map[string]string{
		"http://" + hangsUp:                        "accepts connections and closes them without an answer",
		"https://" + hangsUp:                       "accepts connections and closes them without an answer",
		"http://" + banner:                         "answers, but is not etcd's client port",
		"http://" + web:                            "the server speaks TLS, but the URL says http",
		"http://" + webH1:                          "the server speaks TLS, but the URL says http",
		"https://" + web:                           "answers, but is not etcd's client port",
		"https://" + webH1:                         "speaks TLS, but is not etcd's client port",
		"https" + strings.TrimPrefix(etcd, "http"): "the URL says https, but the server speaks plain text",
	} {
		s := Settings{Endpoints: endpoint, DialTimeout: time.Second}
		if strings.HasPrefix(endpoint, "https:") {
			s.cacert = ca.File
		}
		wantFailure(t, s, nil, exit.Unreachable, want)
	}
}

func TestConnectWithoutLeader(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, Members: 3})
	members := etcd.Members()
	members[1].Kill()
	members[2].Kill()
	wantFailure(t, Settings{Endpoints: members[0].Endpoint(), DialTimeout: 3 * time.Second}, nil, exit.Unreachable, "its cluster has no leader")
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
			cancel(&exit.SignalError{})
			conn.Close()
		}
	}()
	err = probe(ctx, Settings{Endpoints: "http://" + silent.Addr().String(), DialTimeout: time.Minute}, nil)
	if code, ok := exit.SignalCode(ctx, err); !ok || err == nil {
		t.Errorf("error %v, code %d; want an interrupt", err, code)
	}
}
