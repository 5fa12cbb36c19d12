//go:build unix

package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Each handshake is made with the files as they are: certificate, key and authority. A pair of which one half is new
// is left as it was.
func TestTLSFilesAreReadAgain(t *testing.T) {
	first, second := clitest.NewAuthority(t), clitest.NewAuthority(t)
	s := Settings{cacert: first.File}
	s.cert, s.key = first.Issue(t, "old", time.Hour)
	cfg, err := s.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	creds := newHandshakes(&tlsFiles{read: s.tlsConfig, last: cfg}).Clone()
	wants := func(server *clitest.Authority, want string) {
		t.Helper()
		if got := shownTo(t, server, creds.ClientHandshake); got != want {
			t.Errorf("the server sees %q, want %q", got, want)
		}
	}
	wants(first, "old")
	wants(second, "refused")
	cert, key := first.Issue(t, "new", time.Hour)
	clitest.Replace(t, cert, s.cert)
	wants(first, "old")
	clitest.Replace(t, key, s.key)
	wants(first, "new")
	clitest.Replace(t, second.File, s.cacert)
	wants(second, "new")
	wants(first, "refused")
	if err := os.Remove(s.cacert); err != nil {
		t.Fatal(err)
	}
	wants(second, "new")
}

// shownTo is the name in the certificate that a server of an authority is shown, or "refused" when it is not trusted.
func shownTo[Info any](t *testing.T, ca *clitest.Authority, handshake func(context.Context, string, net.Conn) (net.Conn, Info, error)) string {
	t.Helper()
	certFile, keyFile := ca.Issue(t, "server", time.Hour)
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
	if (err != nil) != (got == "refused") && !strings.Contains(exit.Text(err), unknown.Error()) {
		t.Errorf("the client says %v where the server saw %s", err, got)
	}
	return got
}
