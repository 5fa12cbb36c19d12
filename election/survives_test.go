package election_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// soon is less than it takes a waiter to look again without being told.
const soon = 8 * time.Second

// The lease of a waiting candidate is revoked, and then the leader resigns: the
// candidate must not lead with it, and stands again by itself.
func TestSurvives_18_CandidateWithoutALease(t *testing.T) {
	s := sharedStage(t)
	a := s.enter(s.client)
	a.leads()
	b := s.enter(s.client)
	dead := s.candidates(1)[0]
	s.revoke(dead)
	must(t, a.leaves())
	if term := b.leads(); term.Session() == dead {
		t.Error("a dead session leads")
	}
	if st := s.leader(); st.Owner == dead || st.OwnerGone {
		t.Errorf("led by %+v", st)
	}
	must(t, b.Verify(within(t)))
}

// History is compacted again and again while a candidate waits.
func TestSurvives_19_CompactionDuringACampaign(t *testing.T) {
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}).Client(t))
	a := s.enter(s.client)
	a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	o := s.observe(s.client)
	o.until(election.Leader)
	for range 20 {
		resp, err := s.client.Put(within(t), "x", "")
		must(t, err)
		_, err = s.client.Compact(within(t), resp.Header.Revision)
		must(t, err)
	}
	s.candidates(1)
	must(t, a.leaves())
	b.leads()
	o.until(election.Leader, election.None)
	must(t, b.leaves())
	s.wantNothing()
}

// Auth tokens expire several times while a leader works and a candidate waits.
func TestSurvives_20_AuthTokensExpireDuringACampaign(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{AuthTokenTTL: 2 * time.Second})
	enableAuth(t, cluster.Client(t))
	login := func() *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Username: "root", Password: "pw", Logger: zap.NewNop()})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	s := newStage(t, login())
	// Each stream that is opened logs in first, which takes the server's bcrypt; how
	// long an answer may take depends on the TTL.
	patient := func(c *election.Config) { c.TTL = 30 * time.Second }
	a := s.enter(login(), patient)
	term := a.leads()
	b := s.enter(login(), patient)
	s.candidates(1)
	o := s.observe(login())
	o.until(election.Leader)
	// Nothing is sent for several lifetimes of a token.
	<-time.After(7 * time.Second)
	if a.Term() != term {
		t.Error("the term has ended")
	}
	_, err := term.Commit(within(t), clientv3.OpPut("/x", ""))
	must(t, err)
	start := time.Now()
	a.stop()
	b.leads()
	t.Logf("the candidate learned of it after %v", time.Since(start))
	must(t, a.leaves())
	must(t, b.Verify(within(t)))
	o.until(election.Leader, election.None)
}

func enableAuth(t *testing.T, client *clientv3.Client) {
	t.Helper()
	_, err := client.UserAdd(within(t), "root", "pw")
	must(t, err)
	_, err = client.RoleAdd(within(t), "root")
	must(t, err)
	_, err = client.UserGrantRole(within(t), "root", "root")
	must(t, err)
	_, err = client.AuthEnable(within(t))
	must(t, err)
}

// Terms end again and again, by loss: each win has a new token, and no two runs of
// fn overlap.
func TestSurvives_48_LossAndWinAgain(t *testing.T) {
	s := sharedStage(t)
	var inside atomic.Int32
	fn := func(ctx context.Context, _ *election.Term) error {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d runs of fn at once", n)
		}
		<-ctx.Done()
		inside.Add(-1)
		return ctx.Err()
	}
	a := s.enterWith(s.client, fn)
	last := coord.Token(0)
	for range 10 {
		term := a.leads()
		if term.Token() <= last {
			t.Errorf("token %s does not rise over %s", term.Token(), last)
		}
		last = term.Token()
		s.revoke(term.Session())
		wantErr(t, "cause", a.ended(), coord.ErrSessionLost)
		// Until the claim is given up it is nobody else's, and may be written under.
		_, err := term.Commit(within(t), clientv3.OpPut("/work"+s.root, "late"))
		if err != nil && !errors.Is(err, coord.ErrFenced) && !errors.Is(err, coord.ErrClosed) {
			t.Errorf("late commit: %v", err)
		}
	}
}

// The leader's key is deleted behind its back: the term ends at once, and the next
// one is another.
func TestDeletedLeaderKeyEndsTheTerm(t *testing.T) {
	s := sharedStage(t)
	a := s.enter(s.client)
	term := a.leads()
	start := time.Now()
	_, err := s.client.Delete(within(t), s.leader().Key)
	must(t, err)
	wantErr(t, "cause", a.ended(), coord.ErrFenced)
	if took := time.Since(start); took > soon {
		t.Errorf("the leader learned of it after %v", took)
	}
	_, err = term.Commit(within(t), clientv3.OpPut("/x", ""))
	wantErr(t, "late commit", err, coord.ErrFenced)
	if next := a.leads(); next.Token() <= term.Token() {
		t.Errorf("token %s does not rise over %s", next.Token(), term.Token())
	}
}

// A function that ignores its context: it is told, the leadership is not given away
// beneath it, and it goes to the next when its lease has run out. See also 45.
func TestSurvives_46_StuckLeader(t *testing.T) {
	s := sharedStage(t)
	gate := make(chan struct{})
	told, stuck := make(chan time.Time, 1), make(chan time.Time, 1)
	fn := func(ctx context.Context, _ *election.Term) error {
		<-ctx.Done()
		told <- time.Now()
		<-gate
		return nil
	}
	a := s.enterWith(s.client, fn, expires, func(c *election.Config) {
		c.Grace = 200 * time.Millisecond
		c.Hooks.Stuck = func(*election.Term) { stuck <- time.Now() }
	})
	term := a.leads()
	b := s.enter(s.client)
	s.candidates(1)
	leaseOver := make(chan struct{})
	watch := s.client.Watch(within(t), s.store.Keys().Session(term.Session()), clientv3.WithCreatedNotify())
	<-watch
	go func() {
		<-watch // its DELETE
		close(leaseOver)
	}()
	resigned := make(chan error, 1)
	go func() { resigned <- a.Resign(within(t)) }()
	ended, lapsed := receive(t, "the end of its context", told), receive(t, "the hook", stuck)
	if lapsed.Before(ended) {
		t.Errorf("stuck at %v, before it was told at %v", lapsed, ended)
	}
	if err := a.Healthz(nil); err == nil {
		t.Error("healthy while it is stuck")
	}
	next := b.leads()
	select {
	case <-leaseOver:
	case <-within(t).Done():
		t.Error("the next one leads, and the stuck one's lease has not ended")
	}
	if next.Token() <= term.Token() {
		t.Errorf("token %s does not rise over %s", next.Token(), term.Token())
	}
	_, err := term.Commit(within(t), clientv3.OpPut("/x", ""))
	wantErr(t, "commit of the stuck leader", err, coord.ErrFenced)
	select {
	case err := <-resigned:
		t.Errorf("resign returned %v before fn did", err)
	default:
	}
	close(gate)
	wantErr(t, "resign", receive(t, "resign", resigned), coord.ErrSessionLost)
	s.candidates(1) // it stands again
	must(t, a.Healthz(nil))
}

// An elector whose etcd is silent cannot stand, and says so; when etcd is back it
// stands again.
func TestHealthzAcrossAnOutage(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	s := newStage(t, cluster.Client(t))
	a := s.enter(cluster.ProxiedClient(t), expires)
	a.leads()
	must(t, a.Healthz(nil))
	cluster.Proxy(0).Pause()
	wantErr(t, "cause", a.ended(), coord.ErrSessionLost)
	for range 3 {
		wantErr(t, "health during the outage", a.Healthz(nil), coord.ErrSessionLost)
	}
	cluster.Proxy(0).Heal()
	a.leads()
	must(t, a.Healthz(nil))
}

// A write of the old leader's is on its way while the next one is elected, and
// arrives then.
func TestSurvives_54_LateWriteOfADeposedLeader(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	s := newStage(t, cluster.Client(t))
	proxy := cluster.Proxy(0)
	a := s.enter(cluster.ProxiedClient(t), named("a"))
	term := a.leads()
	write := func(term *election.Term) error {
		_, err := term.Commit(within(t), clientv3.OpPut("/plan"+s.root, term.Session()))
		return err
	}
	must(t, write(term)) // its lane is open
	b := s.enter(s.client, named("b"))
	s.candidates(1)
	proxy.PauseRequests()
	late := make(chan error, 1)
	go func() { late <- write(term) }()
	must(t, proxy.WaitRequests(within(t), 1))
	proxy.Sever()
	s.revoke(term.Session())
	next := b.leads()
	must(t, write(next))
	must(t, proxy.Deliver(within(t)))
	proxy.Heal()
	wantErr(t, "the late write", receive(t, "its answer", late), coord.ErrFenced)
	resp, err := s.client.Get(within(t), "/plan"+s.root)
	must(t, err)
	if got := string(resp.Kvs[0].Value); got != next.Session() || resp.Kvs[0].Version != 2 {
		t.Errorf("the plan is %s's, version %d, want %s's, version 2", got, resp.Kvs[0].Version, next.Session())
	}
}

// A member that is cut off from its peers answers some things still: it must never
// say that its client leads.
func TestSurvives_07_VerifyOnAnIsolatedMember(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Members: 3})
	old := cluster.Leader(t)
	var others []string
	for _, m := range cluster.Members() {
		if m != old {
			others = append(others, m.Endpoint())
		}
	}
	s := newStage(t, etcdtest.NewClient(t, others))
	a := s.enter(etcdtest.NewClient(t, []string{old.Endpoint()}), expires)
	term := a.leads()
	b := s.enter(etcdtest.NewClient(t, others))
	s.candidates(1)
	must(t, a.Verify(within(t)))
	old.Cut()
	defer old.Mend()
	verify := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Verify(ctx); err == nil {
			t.Error("an isolated member verified its leader")
		}
	}
	verify()
	next := b.leads()
	verify()
	must(t, b.Verify(within(t)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := term.Commit(ctx, clientv3.OpPut("/x", "")); err == nil {
		t.Error("the deposed leader's write was accepted")
	}
	old.Mend()
	if _, err := term.Commit(within(t), clientv3.OpPut("/x", "")); !errors.Is(err, coord.ErrFenced) && !errors.Is(err, coord.ErrClosed) {
		t.Errorf("the deposed leader's write: got %v, want a refusal", err)
	}
	if next.Token() <= term.Token() {
		t.Errorf("token %s does not rise over %s", next.Token(), term.Token())
	}
}

// An observer across everything that happens to an etcd: it tells, and is never
// closed. Also 50 and 52: what it cannot know is Unknown, with its age, never None.
func TestSurvives_23_ObserverAcrossTrouble(t *testing.T) {
	cluster := etcdtest.New(t, etcdtest.Config{Proxies: true})
	s := newStage(t, cluster.Client(t))
	o := s.observe(cluster.ProxiedClient(t))
	if got := o.next(); got.Status != election.None || time.Since(got.AsOf) > time.Minute {
		t.Errorf("before anybody stood: %+v", got)
	}
	a := s.enter(s.client, func(c *election.Config) { c.TTL = 30 * time.Second })
	term := a.leads()
	isLeader := func(got election.State, term *election.Term) {
		t.Helper()
		if got.Session != term.Session() || got.Token != term.Token() || got.AsOf.IsZero() {
			t.Errorf("observed %+v, want leader %s with token %s", got, term.Session(), term.Token())
		}
	}
	isLeader(o.until(election.Leader), term)
	// A leader whose session is gone is none, whatever its key says.
	s.revoke(term.Session())
	if got := o.next(); got.Status == election.None {
		if got.Session != "" || !got.Token.IsZero() {
			t.Errorf("none, but %+v", got)
		}
		isLeader(o.until(election.Leader), a.leads())
	} else { // it was elected again before anybody looked
		isLeader(got, a.leads())
	}
	_, err := s.client.Compact(within(t), s.leader().Revision)
	must(t, err)
	must(t, a.Resign(within(t)))
	isLeader(o.until(election.Leader, election.None), a.leads())
	cluster.Member(0).Kill()
	must(t, cluster.Member(0).Restart(within(t)))
	must(t, a.Resign(within(t)))
	term = a.leads()
	for got := o.until(election.Leader, election.None, election.Unknown); got.Token != term.Token(); got = o.until(election.Leader, election.None, election.Unknown) {
	}
	cluster.Proxy(0).Pause()
	got := o.next()
	if age := time.Since(got.AsOf); got.Status != election.Unknown || got.Session != "" || age < 10*time.Second || age > time.Minute {
		t.Errorf("in a partition: %+v, of age %v", got, age)
	}
	cluster.Proxy(0).Heal()
	isLeader(o.until(election.Leader), term)
}

func ExampleElector_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, stop := startEtcd(ctx)
	defer stop()

	elector, err := election.New(client, election.Config{Name: "scheduler"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(ctx, func(ctx context.Context, term *election.Term) error {
		// ctx ends when the leadership does. What is written through the term is
		// refused once another leads.
		_, err := term.Commit(ctx, clientv3.OpPut("/site/plan", "..."))
		fmt.Println("planned:", err)
		return nil // gives the leadership up
	})
	fmt.Println("run:", err)
	// Output:
	// planned: <nil>
	// run: <nil>
}

// startEtcd runs an etcd for an example and connects to it. In your program there
// is a clientv3.New instead.
func startEtcd(ctx context.Context) (client *clientv3.Client, stop func()) {
	cluster, err := etcdtest.Start(ctx, etcdtest.Config{})
	if err != nil {
		panic(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		panic(err)
	}
	return client, func() { client.Close(); cluster.Close() }
}
