package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	// quietWithin is how long after the TTL everything must be as it should be.
	quietWithin = 10 * time.Second
	// passing is how long a claim may stand without a handler, or an entry without its
	// claim, because one follows the other.
	passing = time.Second
	// look is the time between two looks at etcd.
	look = 250 * time.Millisecond
)

// quiet watches a run that has calmed down come to rest.
type quiet struct {
	c      *chaos
	looks  int
	first  map[string]time.Time // when that was seen first, of all looks since
	claims map[history.Claimed]time.Time
	leases map[clientv3.LeaseID]int64
	now    time.Time
	log    *history.Log // of this look, nil until it is needed
	rest   time.Time    // since when no lasting unrest was seen, zero while there is some
}

// quiesce blocks until nothing is left that lasts, or fails: what is left TTL + 10 s after
// a moment is not finished by anybody. When tells the moments of one run apart. What it
// logs are the seconds until the first look that found the run at rest.
func (c *chaos) quiesce(t *testing.T, when string, since time.Time) {
	t.Helper()
	took, left := c.comeToRest(t.Context(), since, theSize().ttl+quietWithin)
	for _, line := range left {
		t.Errorf("quiescence, %s: %s", when, line)
		c.note("unrest, %s: %s", when, line)
	}
	t.Logf("quiescence: members=%d mode=%s seed=%d when=%s took=%.2fs left=%d", c.cfg.members, c.cfg.mode, c.cfg.seed, when, took.Seconds(), len(left))
}

// comeToRest returns how long after a moment it took until nothing lasting was left, or
// what was left when the time was over.
func (c *chaos) comeToRest(ctx context.Context, since time.Time, within time.Duration) (took time.Duration, left []string) {
	q := &quiet{c: c, first: map[string]time.Time{}, claims: map[history.Claimed]time.Time{}, leases: map[clientv3.LeaseID]int64{}}
	for ; ctx.Err() == nil; wait(ctx, look) {
		unrest, err := q.look(ctx)
		if err != nil {
			unrest = []string{err.Error()}
		}
		lasting := q.lasting(unrest)
		switch {
		case len(lasting) > 0 && time.Since(since) > within:
			return time.Since(since), lasting
		case len(lasting) == 0 && time.Since(q.rest) > 2*passing:
			return q.rest.Sub(since), nil
		}
	}
	return time.Since(since), []string{"the time of the test is over"}
}

// lasting is what of an unrest was there a while ago, and at the beginning.
func (q *quiet) lasting(unrest []string) (lasting []string) {
	first := map[string]time.Time{}
	for _, line := range unrest {
		at, before := q.first[line]
		switch {
		case before:
			first[line] = at
		case q.looks == 0: // it may have been there for long
			first[line] = q.now.Add(-passing)
		default:
			first[line] = q.now
		}
		if q.now.Sub(first[line]) >= passing {
			lasting = append(lasting, line)
		}
	}
	q.first = first
	if q.looks++; len(lasting) > 0 {
		q.rest = time.Time{}
	} else if q.rest.IsZero() {
		q.rest = q.now
	}
	return lasting
}

// look is one look at etcd and at the processes.
func (q *quiet) look(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q.now, q.log = time.Now(), nil
	prefixes, err := history.RestPrefixes(chaosRoot, chaosQueue)
	if err != nil {
		return nil, err
	}
	leases, err := history.ReadLeases(ctx, q.c.adminClient, q.leases)
	if err != nil {
		return nil, err
	}
	final, err := history.ReadFinal(ctx, q.c.adminClient, prefixes...)
	if err != nil {
		return nil, err
	}
	claims := map[history.Claimed]time.Time{}
	unrest, err := history.Rest{
		Root: chaosRoot, Final: final, Leases: leases, Sessions: q.c.sessions(),
		Elections: []string{chaosElection, "dispatcher:" + chaosQueue},
		Runs: func(c history.Claimed) bool {
			at, before := q.claims[c]
			if !before {
				at = q.now
			}
			claims[c] = at
			return before && q.now.Sub(at) < passing || q.runs(c)
		},
	}.Unrest()
	q.claims = claims
	return unrest, err
}

// runs tells whether a process runs a claim, or is closing it. What dispatches does so
// in other processes: that the queue drains shows it.
func (q *quiet) runs(c history.Claimed) bool {
	if strings.HasPrefix(c.Name, "dispatcher:") {
		return true
	}
	if q.log == nil {
		var err error
		if q.log, err = q.c.log(); err != nil {
			return false
		}
	}
	return slices.ContainsFunc(q.log.Works, func(w history.Work) bool {
		return w.End == history.Never && w.Queue == c.Queue && w.ID == c.ID && w.Token == c.Token && w.Session == c.Session
	}) || slices.ContainsFunc(q.log.Ops, func(op history.Op) bool {
		return op.Return == history.Never && op.Queue == c.Queue && op.ID == c.ID && op.Token == c.Token && op.Session == c.Session
	}) || c.Name != "" && slices.ContainsFunc(q.log.Terms, func(term history.Term) bool {
		return term.End == history.Never && term.Election == c.Name && term.Token == c.Token && term.Session == c.Session
	})
}

// sessions is how many sessions each process has that lives.
func (c *chaos) sessions() map[string]int {
	n := map[string]int{}
	for _, p := range c.procs {
		n[p.living()] = 2 // of its work, and of its candidate for dispatcher
	}
	for _, w := range c.clients {
		n[w.Proc] = 1
	}
	for i := range c.leaders {
		n[fmt.Sprintf("leader%d", i)] = 1
	}
	for _, g := range c.guests {
		n[g.name] = 1
	}
	delete(n, "")
	return n
}

// The check of quiescence finds what no process would ever finish: each is put behind
// the back of processes that are well.
func TestChaosUnrest(t *testing.T) {
	c := newChaos(t, chaosConfig{seed: cmp.Or(*seedFlag, 1), members: 1, mode: "dispatch"})
	queue := c.openAdmin(t)
	if err := queue.SetMode(bounded(t), c.cfg.mode, workqueue.By{Actor: "chaos"}); err != nil {
		t.Fatal(err)
	}
	c.startWorkers(t)
	c.startLeaders(t)
	c.quiesce(t, "whole", time.Now())
	keys, err := keyspace.New(chaosRoot)
	if err != nil {
		t.Fatal(err)
	}
	sid, rev := c.sessionOf(t, keys, "inside0")
	qk := keys.Queue(chaosQueue)
	mine := func(extra string) string {
		return fmt.Sprintf(`{"w":"0123456789abcdef","v":1,"id":"stray","born":"b","owner":%q,"owner_rev":"%d"%s}`, sid, rev, extra)
	}
	grant, err := c.adminClient.Grant(bounded(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []clientv3.Op{
		clientv3.OpPut(qk.Job("stray"), mine(`,"attempt":1`)),
		clientv3.OpPut(qk.Assigned(sid, "other"), mine("")),
		clientv3.OpPut(qk.Worker("gone.0123456789abcdef"), "{}"),
		clientv3.OpPut(keys.Lock("l")+"holder", mine("")),
		clientv3.OpPut(keys.Lock("l")+"waiters/"+sid+"-1", mine(""), clientv3.WithLease(grant.ID)),
		clientv3.OpPut(keys.Session("twin.0123456789abcdef"), "{}", clientv3.WithLease(grant.ID)),
	} {
		if _, err := c.adminClient.Do(bounded(t), op); err != nil {
			t.Fatal(err)
		}
	}
	lone, err := c.adminClient.Grant(bounded(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	_, left := c.comeToRest(t.Context(), time.Now(), 3*time.Second)
	for _, want := range []string{
		"claim " + qk.Job("stray"), "inbox entry " + qk.Assigned(sid, "other"), "registration " + qk.Worker("gone.0123456789abcdef"),
		"claim " + keys.Lock("l") + "holder", "waiting entry " + keys.Lock("l") + "waiters/" + sid, "identity twin has 1 sessions",
		fmt.Sprintf("lease %x is no session's", int64(lone.ID)),
	} {
		if !slices.ContainsFunc(left, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("not found: %s; found: %q", want, left)
		}
	}
	if len(left) != 7 {
		t.Errorf("found %d, want 7: %q", len(left), left)
	}
	c.stopWorkers(t)
}

// sessionOf is the session of an identity.
func (c *chaos) sessionOf(t *testing.T, keys keyspace.Keyspace, identity string) (sid string, rev int64) {
	t.Helper()
	resp, err := c.adminClient.Get(bounded(t), keys.SessionsOf(identity), clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("the session of %s: %v, %v", identity, resp, err)
	}
	kv := resp.Kvs[0]
	return strings.TrimPrefix(string(kv.Key), keys.Sessions()), kv.CreateRevision
}
