package embedetcd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

// selfSigned writes a certificate for loopback that is its own authority.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, data := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	if cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pool, cert
}

func tlsClient(t *testing.T, c *embedetcd.Cluster, conf *tls.Config) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: conf, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func TestTLSWithClientCertificates(t *testing.T) {
	certFile, keyFile, pool, cert := selfSigned(t)
	c := start(t, embedetcd.Config{Fast: true, TLS: &embedetcd.TLS{
		CertFile: certFile, KeyFile: keyFile, CAFile: certFile, ClientCertAuth: true,
	}})
	if !strings.HasPrefix(c.Endpoints()[0], "https://") {
		t.Errorf("got endpoint %s, want https", c.Endpoints()[0])
	}
	good := tlsClient(t, c, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}})
	put(t, good, "k", "v")
	<-good.Watch(within(t), "k", clientv3.WithCreatedNotify())

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := tlsClient(t, c, &tls.Config{RootCAs: pool}).Get(ctx, "k"); err == nil {
		t.Error("get without a client certificate: got nil, want an error")
	}
	// Over TLS, too, a stop must not wait for the watch.
	began := time.Now()
	c.Members()[0].Kill()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("Kill took %v with a watch open over TLS", took)
	}
	if err := c.Members()[0].Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, good, "k", "v")
}

func TestQuotaIsEnforced(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true, QuotaBackendBytes: 1 << 20})
	cl := client(t, c.Endpoints()...)
	big := strings.Repeat("x", 256<<10)
	for range 100 {
		_, err := cl.Put(within(t), "k", big)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("25 MiB went into a quota of 1 MiB")
}

func TestHistoryIsCompacted(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true, CompactAfter: 100 * time.Millisecond})
	cl := client(t, c.Endpoints()...)
	put(t, cl, "k", "1")
	first, err := cl.Get(within(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	for {
		put(t, cl, "k", "2")
		_, err := cl.Get(ctx, "k", clientv3.WithRev(first.Header.Revision))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAuthTokensExpireAsConfigured(t *testing.T) {
	c := start(t, embedetcd.Config{Fast: true, AuthTokenTTL: time.Second})
	if got := c.Members()[0].Server().Cfg.TokenTTL; got != 1 {
		t.Errorf("got a token TTL of %d s, want 1", got)
	}
}
