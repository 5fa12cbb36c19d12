//go:build unix

package leasectl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/workqueue"
)

// Each handshake is made with the files as they are: certificate, key and authority. A pair of which one half is new
// is left as it was.
func TestTLSFilesAreReadAgain(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	s := settings{cacert: first.file}
	s.cert, s.key = first.issue(t, "old", time.Hour)
	cfg, err := s.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	creds := newHandshakes(&tlsFiles{read: s.tlsConfig, last: cfg}).Clone()
	wants := func(server *authority, want string) {
		t.Helper()
		if got := shownTo(t, server, creds.ClientHandshake); got != want {
			t.Errorf("the server sees %q, want %q", got, want)
		}
	}
	wants(first, "old")
	wants(second, "refused")
	cert, key := first.issue(t, "new", time.Hour)
	replace(t, cert, s.cert)
	wants(first, "old")
	replace(t, key, s.key)
	wants(first, "new")
	replace(t, second.file, s.cacert)
	wants(second, "new")
	wants(first, "refused")
	if err := os.Remove(s.cacert); err != nil {
		t.Fatal(err)
	}
	wants(second, "new")
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// shownTo is the name in the certificate that a server of an authority is shown, or "refused" when it is not trusted.
func shownTo[Info any](t *testing.T, ca *authority, handshake func(context.Context, string, net.Conn) (net.Conn, Info, error)) string {
	t.Helper()
	certFile, keyFile := ca.issue(t, "server", time.Hour)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	shown := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			shown <- err.Error()
			return
		}
		defer conn.Close()
		server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2"}})
		if err := server.HandshakeContext(t.Context()); err != nil {
			shown <- "refused"
			return
		}
		shown <- server.ConnectionState().PeerCertificates[0].Subject.CommonName
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _, err = handshake(t.Context(), listener.Addr().String(), conn)
	got := <-shown
	var unknown x509.UnknownAuthorityError
	if (err != nil) != (got == "refused") && !strings.Contains(errorText(err), unknown.Error()) {
		t.Errorf("the client says %v where the server saw %s", err, got)
	}
	return got
}

// A worker whose certificate is refused comes back when another lies in its place.
func TestWorkTakesUpAReplacedCertificate(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ca.issue(t, "server", time.Hour)
	etcd := startEtcd(t, embedetcd.Config{Fast: true, TLS: &embedetcd.TLS{CertFile: serverCert, KeyFile: serverKey, CAFile: ca.file, ClientCertAuth: true}})
	proxy, err := faultproxy.New(strings.TrimPrefix(etcd.Endpoints()[0], "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	own := settings{cacert: ca.file}
	own.cert, own.key = ca.issue(t, "test", time.Hour)
	cfg, err := own.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), TLS: cfg, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := &station{t: t, etcd: etcd, root: "/certs/", dir: t.TempDir(), endpoints: "https://" + strings.TrimPrefix(proxy.Endpoint(), "http://")}
	if s.queue, err = workqueue.Open(s.within(patience), client, workqueue.Config{Queue: testQueue, Root: s.root}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.queue.Close() })

	cert, key := ca.issue(t, "worker", time.Hour)
	w := s.start(exec.Command("leasectl", "work", testQueue, "--ttl", "2s", "--cacert", ca.file, "--cert", cert, "--key", key, "--", "true"))
	w.says("session ")
	badCert, badKey := stranger.issue(t, "stranger", time.Hour)
	replace(t, badKey, key)
	replace(t, badCert, cert)
	proxy.Refuse()
	w.says("session LOST")
	proxy.Heal()
	w.says("client certificate")
	goodCert, goodKey := ca.issue(t, "new", time.Hour)
	replace(t, goodKey, key)
	replace(t, goodCert, cert)
	s.enqueue("j")
	if j := s.wait("j"); j.State != workqueue.StateDone {
		t.Errorf("the job is %s, want done", j.State)
	}
	w.signal(syscall.SIGTERM)
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
