//go:build linux

package integration_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// cpuTime is what a process has used so far, of its own and in the kernel.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name, in parentheses, may hold spaces; utime and stime are 11 and 12 fields
	// behind it, in hundredths of a second.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A worker's and a dispatcher's process, whose etcd has stopped, wait for it and do
// not spin. When it is back they work.
func TestSurvives_35_ProcessesWithoutEtcdAreIdle(t *testing.T) {
	t.Parallel()
	const down = 5 * time.Second
	c, root := etcdtest.New(t, etcdtest.Config{}), etcdtest.Root(t)
	cl := c.Client(t)
	q := open(t, cl, root)
	ping := func(id string) {
		t.Helper()
		add(t, q, workqueue.Params{ID: id, Kind: "ping"})
		if _, err := q.Wait(bounded(t), id); err != nil {
			t.Fatal(err)
		}
	}
	idle := []*process{start(t, c.Endpoints()[0], root, "2s", "block"), start(t, c.Endpoints()[0], root, "2s", "dispatch")}
	ping("before")
	dispatchers, err := election.New(cl, election.Config{Name: q.DispatcherElection(), Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(bounded(t))
	states := dispatchers.Observe(ctx)
	for st := range states {
		if st.Status == election.Leader {
			break // both are up
		}
	}
	stop()
	for range states {
	}
	c.Member(0).Stop()
	var before []time.Duration
	for _, p := range idle {
		before = append(before, cpuTime(t, p.cmd.Process.Pid))
	}
	began := time.Now()
	<-time.After(down) // what is measured is what happens meanwhile
	for i, p := range idle {
		used, passed := cpuTime(t, p.cmd.Process.Pid)-before[i], time.Since(began)
		t.Logf("process %d used %v in %v without etcd", i, used, passed)
		if limit := passed / 5; used > limit {
			t.Errorf("process %d used %v of CPU in %v without etcd, want at most %v", i, used, passed, limit)
		}
	}
	if err := c.Member(0).Restart(bounded(t)); err != nil {
		t.Fatal(err)
	}
	ping("after")
	for _, p := range idle {
		p.signal(t, syscall.SIGTERM)
		<-p.done
	}
}
