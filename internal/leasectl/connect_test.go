package leasectl

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
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
)

// probe connects with these settings and closes again.
func probe(ctx context.Context, s settings, env map[string]string) error {
	if s.root == "" {
		s.root = defaultRoot
	}
	if s.dialTimeout == 0 {
		s.dialTimeout = 10 * patience // who waits for that is noticed
	}
	a := &app{settings: s, getenv: func(name string) string { return env[name] }}
	c, err := a.connect(ctx)
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
	if took := time.Since(start); took > patience {
		t.Errorf("%s: error after %v, want it soon", s.endpoints, took)
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
	etcd := startEtcd(t, embedetcd.Config{Fast: true})
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
	ca := newAuthority(t)
	cert, key := ca.issue(t, "server", time.Hour)
	etcd := startEtcd(t, embedetcd.Config{Fast: true, TLS: &embedetcd.TLS{CertFile: cert, KeyFile: key}})
	endpoint := etcd.Endpoints()[0]
	plain := "http" + strings.TrimPrefix(endpoint, "https")

	if err := probe(t.Context(), settings{endpoints: endpoint, cacert: ca.file}, nil); err != nil {
		t.Errorf("known authority: %v", err)
	}
	if err := probe(t.Context(), settings{endpoints: strings.TrimPrefix(endpoint, "https://"), cacert: ca.file}, nil); err != nil {
		t.Errorf("no scheme, but a CA: %v", err)
	}
	wantFailure(t, settings{endpoints: plain}, nil, exitUnreachable, "the server speaks TLS, but the URL says http")
	wantFailure(t, settings{endpoints: endpoint}, nil, exitUnreachable, "signed by an unknown authority")
	wantFailure(t, settings{endpoints: plain, cacert: ca.file}, nil, exitUsage, "plain text")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "https://"))
	wantFailure(t, settings{endpoints: "https://localhost:" + port, cacert: ca.file}, nil, exitUnreachable, "for another name")
}

func TestConnectClientCertificate(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, "server", time.Hour)
	etcd := startEtcd(t, embedetcd.Config{Fast: true,
		TLS: &embedetcd.TLS{CertFile: cert, KeyFile: key, CAFile: ca.file, ClientCertAuth: true}})

	s := settings{endpoints: etcd.Endpoints()[0], cacert: ca.file}
	wantFailure(t, s, nil, exitAuth, "demands a client certificate")
	s.cert, s.key = stranger.issue(t, "stranger", time.Hour)
	wantFailure(t, s, nil, exitAuth, "client certificate")
	s.cert, s.key = ca.issue(t, "ana", time.Hour)
	if err := probe(t.Context(), s, nil); err != nil {
		t.Errorf("client certificate of the right authority: %v", err)
	}
}

func TestConnectExpiredCertificate(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "server", -time.Hour)
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
	wantFailure(t, settings{endpoints: server.URL, cacert: ca.file}, nil, exitUnreachable, "certificate is not valid now")
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
	etcd := startEtcd(t, embedetcd.Config{Fast: true, Members: 3})
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

// authority signs certificates.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{file: writePEM(t, "ca", "CERTIFICATE", der), cert: cert, key: key}
}

// issue makes a certificate for 127.0.0.1 that is valid for d from now on.
func (a *authority) issue(t *testing.T, name string, d time.Duration) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(d),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, name, "CERTIFICATE", der), writePEM(t, name+"-key", "EC PRIVATE KEY", keyDER)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
