package election_test

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// A leader that is to end while etcd gives no answer ends within seconds, whatever its
// TTL: then its lease hands over.
func TestALeaderEndsInTimeWithoutEtcd(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	s := newStage(t, cluster.Client(t))
	a := s.enter(cluster.ProxiedClient(t), func(c *election.Config) { c.TTL = 20 * time.Second })
	a.leads()
	cluster.Proxy(0).Pause()
	defer cluster.Proxy(0).Heal()
	began := time.Now()
	if err := a.leaves(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 15*time.Second { // 9 s and what a busy machine takes
		t.Errorf("Run ended %v after its ctx", took)
	}
}
