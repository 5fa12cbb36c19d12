package leasectl

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// crowd is a root that has n of everything that can be listed.
type crowd struct {
	t      *testing.T
	root   string
	client *clientv3.Client
	s      *coord.Session
	worker *coord.Session // owns the claims
	n      int
}

// grow makes what is missing to n queues, each with jobs in all places and a worker, locks, elections and semaphores.
func (c *crowd) grow(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), clitest.Patience)
	defer cancel()
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for ; c.n < n; c.n++ {
		name := fmt.Sprintf("n%04d", c.n)
		q, err := workqueue.Open(ctx, c.client, workqueue.Config{Queue: name, Root: c.root})
		must(err)
		for _, id := range []string{"claimed", "ready", "dead", "over"} {
			_, err := q.Enqueue(ctx, workqueue.Params{ID: id})
			must(err)
		}
		_, err = q.Claim(ctx, c.worker)
		must(err)
		_, err = admin.Bury(ctx, q, "dead", workqueue.By{})
		must(err)
		_, err = q.Cancel(ctx, "over", workqueue.By{})
		must(err)
		must(q.Close())
		keys := inside.Of(c.s).Store().Keys().Queue(name)
		_, err = c.client.Put(ctx, keys.Workers()+c.worker.ID(), `{"kinds":[],"concurrency":4}`, clientv3.WithLease(c.worker.Lease()))
		must(err)
		_, err = coord.NewLock(c.s, name).TryAcquire(ctx)
		must(err)
		_, err = inside.Of(c.s).Leadership(name).(*coord.Lock).TryAcquire(ctx)
		must(err)
		_, err = coord.NewSemaphore(c.s, name, 2).TryAcquire(ctx)
		must(err)
	}
}

// requests counts what a command sends, and which of it asks for a lease.
func (c *crowd) requests(endpoint, args string) (all, leases int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), clitest.Patience)
	defer cancel()
	var rec etcdtest.Recorder
	var out, errOut bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errOut, Getenv: func(name string) string {
		return map[string]string{"LEASECTL_ENDPOINTS": endpoint, "LEASECTL_CONTEXT": contexts.None, "LEASECTL_ROOT": c.root, "LEASECTL_DIAL_TIMEOUT": "1m"}[name]
	}}
	a.Settings.Dialing = append([]grpc.DialOption{}, rec.DialOptions()...)
	if code := run(ctx, a, newRoot(a, verbs(a)), strings.Fields(args)); code != exit.OK {
		c.t.Fatalf("%s: exit code %d\n%s%s", args, code, out.String(), errOut.String())
	}
	for _, n := range rec.Counts() {
		all += n
	}
	return all, rec.Count("LeaseTimeToLive")
}

// No listing and no check asks etcd per item, but for leases, of which etcd tells one at a time: ten times as much of everything costs a few requests more, not ten times
// as many.
func TestListingsDoNotAskPerItem(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	c := &crowd{t: t, root: "/crowd/", client: etcdtest.NewClient(t, etcd.Endpoints())}
	open := func(identity string) *coord.Session {
		s, err := coord.OpenSession(t.Context(), c.client, coord.SessionConfig{Root: c.root, Identity: identity, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
		return s
	}
	c.s, c.worker = open("holder"), open("worker")
	endpoint := etcd.Endpoints()[0]
	const few, many = 12, 120
	before := map[string]int{}
	for _, n := range []int{few, many} {
		c.grow(n)
		for _, args := range []string{
			"status", "doctor --window 10ms", "doctor --window 10ms --max-run 1ns", "doctor --window 10ms -o json",
			"jobs ls", "jobs ls -o wide", "jobs ls --state dead,cancelled", "jobs ls --limit 1000", "jobs ls --filter id:ready", "jobs ls --filter state:claimed",
			"queues ls", "workers ls", "workers get worker", "leases ls", "locks ls", "elections ls", "semaphores ls",
		} {
			got, leases := c.requests(endpoint, args)
			got -= leases
			if n == few {
				before[args] = got
			} else if grown := got - before[args]; grown > (many-few)/3 {
				t.Errorf("%s: %d requests for %d of everything, %d for %d", args, before[args], few, got, many)
			}
		}
	}
}

// A long queue is read in one stream: the first of it, its counts and its check cost as many requests as those of a short
// one.
func TestALongQueueCostsNoMoreRequests(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	c := &crowd{t: t, root: "/long/", client: etcdtest.NewClient(t, etcd.Endpoints())}
	q, err := workqueue.Open(t.Context(), c.client, workqueue.Config{Queue: "mail", Root: c.root})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	before := map[string]int{}
	for _, n := range []int{300, 6000} {
		results, err := q.EnqueueBatch(t.Context(), make([]workqueue.Params, n))
		if err != nil || results[n-1].Err != nil {
			t.Fatal(err, results[n-1].Err)
		}
		for _, args := range []string{"status", "queues ls", "doctor --window 10ms", "jobs ls --limit 50", "jobs ls mail --limit 50", "jobs ls --filter state:ready --limit 50"} {
			got, _ := c.requests(etcd.Endpoints()[0], args)
			if n == 300 {
				before[args] = got
			} else if got > before[args]+6 { // doctor halves its way to the oldest revision
				t.Errorf("%s: %d requests for 300 jobs, %d for 6300", args, before[args], got)
			}
		}
	}
}

// Leases can only be asked for one by one: the overview asks for none, and a list or a check for each of them once.
func TestOnlyListsOfLeasesAskForThem(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	c := &crowd{t: t, root: "/crowd/", client: etcdtest.NewClient(t, etcd.Endpoints())}
	const sessions = 40
	for range sessions {
		s, err := coord.OpenSession(t.Context(), c.client, coord.SessionConfig{Root: c.root, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	}
	for args, want := range map[string]int{"status": 0, "jobs ls": 0, "jobs ls -o wide": 0, "workers ls": sessions, "doctor --window 10ms": sessions} {
		if _, got := c.requests(etcd.Endpoints()[0], args); got != want {
			t.Errorf("%s asked for %d leases of %d sessions, want %d", args, got, sessions, want)
		}
	}
}
