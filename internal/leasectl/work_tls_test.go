//go:build unix

package leasectl

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// A worker whose certificate is refused comes back when another lies in its place.
func TestWorkTakesUpAReplacedCertificate(t *testing.T) {
	ca, stranger := clitest.NewAuthority(t), clitest.NewAuthority(t)
	serverCert, serverKey := ca.Issue(t, "server", time.Hour)
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, TLS: &embedetcd.TLS{CertFile: serverCert, KeyFile: serverKey, CAFile: ca.File, ClientCertAuth: true}})
	proxy, err := faultproxy.New(strings.TrimPrefix(etcd.Endpoints()[0], "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), TLS: ca.Client(t, "test"), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := &station{t: t, etcd: etcd, root: "/certs/", dir: t.TempDir(), endpoints: "https://" + strings.TrimPrefix(proxy.Endpoint(), "http://")}
	if s.queue, err = workqueue.Open(s.within(time.Minute), client, workqueue.Config{Queue: testQueue, Root: s.root}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.queue.Close() })

	cert, key := ca.Issue(t, "worker", time.Hour)
	w := s.start(exec.Command("leasectl", "work", testQueue, "--ttl", "2s", "--cacert", ca.File, "--cert", cert, "--key", key, "--", "true"))
	w.says("session ")
	badCert, badKey := stranger.Issue(t, "stranger", time.Hour)
	clitest.Replace(t, badKey, key)
	clitest.Replace(t, badCert, cert)
	proxy.Refuse()
	w.says("session LOST")
	proxy.Heal()
	w.says("client certificate")
	goodCert, goodKey := ca.Issue(t, "new", time.Hour)
	clitest.Replace(t, goodKey, key)
	clitest.Replace(t, goodCert, cert)
	s.enqueue("j")
	if j := s.wait("j"); j.State != workqueue.StateDone {
		t.Errorf("the job is %s, want done", j.State)
	}
	w.signal(syscall.SIGTERM)
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
