package workqueue

import (
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/memetcd"
)

// A play is a queue, the processes that work on it, the network between, and etcd,
// as one value: copying it copies the whole world. Everything that decides is the
// code under test: transition, the builders of txns, fences, endedAs. The play only
// carries their Txns, and can lose answers, delay requests, end sessions, kill
// processes and take etcd back to a backup.
//
// It is moved by lines of text, the same that the scenarios under testdata are made
// of, so whatever the explorer finds can be read, and run again:
//
//	claim w1 x             a worker claims job x, and learns the outcome
//	send claim w1 x        its request is on the way: others may be faster
//	arrive w1              the request arrives, and its answer
//	unheard w1             the request arrives, its answer is lost for good
//	lose w1                the sender gives up; the request is still on its way
//	late w1                what was on its way arrives
//	twice w1               the last request arrives once more
//	deny w1                etcd refuses the request outright: no right, or no space
//	learn w1               after that, what became of an earlier try is read
//	settle w1              what is left to the process's book goes on
//	desert w1              the caller leaves its claim to the book
//	lapse w1               the lease ends that no process renews
type play struct {
	*script
	etcd     memetcd.Store
	actors   []actor
	late     []*message // whose senders gave up, in their order
	last     []*message // what arrived last, per actor, for twice
	calls    []outcome  // by call
	told     spec       // what must be so in etcd
	backup   *backup
	exported *exportedJob

	nonces int
	spent  spent
}

// script is what stays the same throughout a play.
type script struct {
	job.Txns
	names  map[string]int // actors by name
	jobs   []string       // as homes names them
	homes  []home
	nonce  nonces
	drop   func(builder, compare string) bool // compares to take out
	real   *liveServer                        // instead of etcd in memory
	leases int64                              // where lease IDs begin
	perJob Params
	lacks  keepers
	// doubled tells that the network may deliver a request twice.
	doubled bool
	epoch   int // of the calls, whose numbers begin anew after the setup
}

// spent counts the faults and interventions, which the explorer bounds.
type spent struct{ lost, expired, crashed, forgotten, restored, foreign, twice, led, left, evicted, hands, denied int }

// backup is etcd as it was once.
type backup struct {
	etcd memetcd.Store
	told spec
}

// nonces is how head nonces are drawn: fresh ones whose order does not matter, fresh
// ones that grow or shrink in time, or always the same: then only revisions guard.
type nonces int

const (
	freshNonces nonces = iota
	growingNonces
	shrinkingNonces
	sameNonces
)

// actor is one process, or person. It has at most one request under way.
type actor struct {
	name    string
	sess    job.Owner
	lease   int64
	crashed bool
	ended   bool     // its lease has
	old     bool     // its program cannot read what a newer one writes
	book    []booked // of its session's claims, as this process keeps it
	script  []string // claims that are used by their tokens
	reg     registered
	doubt   bool     // what became of a closing is read, once that can change no more
	hold    *hold    // the claim that a worker works on
	flight  *message // under way
	unsure  bool     // flight repeats a request whose outcome is unknown
	calls   int
	term    etcdkv.Fence // a dispatcher's
}

// hold is a worker's claim, as its process knows it.
type hold struct {
	at    job.Snapshot
	fence etcdkv.Fence
	noted int64 // the progress key's revision as last seen
	seq   int   // of its last checkpoint
	job   string
}

// message is a request on its way. It never changes.
type message struct {
	call, who int
	verb, job string
	builder   string
	txn       etcdkv.Txn
	seen      job.Snapshot // what it was made of
	n         job.Next
	to        job.Owner // the claimer
	toWho     int
	home                   // of the job
	there     int          // where it is moved to: which job of the play
	fence     etcdkv.Fence // the claim's, or the leader's
	counted   bool
	forGood   bool
	seq       int // of a checkpoint
	old       job.EnqueueSeen
	config    job.QueueConfig
	confRev   int64
	regRev    int64
	with      string       // enqueued together with a completion
	under     etcdkv.Fence // a completion's second fence: a dispatcher's term
	payload   string       // what an edit, or an enqueue, gives it
	repair    repair
}

// outcome is what became of one call.
type outcome struct {
	applied uint8 // how often, in the history that counts
	told    verdict
}

// home is the queue of a job, and its id there.
type home struct {
	q  job.Txns
	id string
}

// newPlay makes a play with the actors named. Their first letter is their part:
// workers, dispatchers, operators, enqueuers. A q is no actor but one more queue, in
// which there may be a job x too.
func newPlay(space keyspace.Keyspace, names ...string) *play {
	s := &script{Txns: job.Txns{Keys: space.Queue("q"), Space: space}, names: map[string]int{}, jobs: []string{"x", "next"}, leases: 100}
	s.homes = []home{{s.Txns, "x"}, {s.Txns, "next"}}
	p := &play{script: s}
	for _, name := range names {
		if name[0] == 'q' {
			s.jobs, s.homes = append(s.jobs, "x@"+name), append(s.homes, home{job.Txns{Keys: space.Queue(name), Space: space}, "x"})
			continue
		}
		s.names[name] = len(p.actors)
		p.actors = append(p.actors, actor{name: name})
		p.last = append(p.last, nil)
	}
	p.told.jobs = make([]jobSpec, len(s.jobs))
	return p
}

// open opens everybody's session, and the leases that results are kept on.
func (p *play) open() {
	for i := range p.actors {
		a := &p.actors[i]
		if !strings.ContainsAny(a.name[:1], "wd") {
			continue
		}
		a.lease = p.leases + int64(i)
		a.sess.ID = fmt.Sprintf("%s.%016x", a.name, i+1)
		p.grant(a.lease)
		p.put(p.Space.Session(a.sess.ID), "{}", a.lease)
		a.sess.Rev = p.lookup(p.Space.Session(a.sess.ID)).ModRevision
	}
	p.grant(p.retentionLease())
}

// retentionLease is the one that done jobs are kept on.
func (p *play) retentionLease() int64 { return p.leases + 50 + int64(p.spent.forgotten) }

// copy returns an independent play.
func (p *play) copy() *play {
	c := *p
	c.actors, c.late, c.last, c.calls = slices.Clone(p.actors), slices.Clone(p.late), slices.Clone(p.last), slices.Clone(p.calls)
	c.told = p.told.copy()
	return &c
}

func (p *play) grant(id int64) {
	if p.real != nil {
		p.real.grant(id)
		return
	}
	if err := p.etcd.Grant(id, 60); err != nil {
		panic(err)
	}
}

func (p *play) revoke(id int64) {
	if p.real != nil {
		p.real.revoke(id)
		return
	}
	if err := p.etcd.Revoke(id); err != nil {
		panic(err)
	}
}

func (p *play) commit(t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	if p.real != nil {
		return p.real.commit(t)
	}
	return p.etcd.Commit(t.If, t.Then, t.Else)
}

// put writes without asking, as only the stage hands may.
func (p *play) put(key, value string, lease int64) {
	var opts []clientv3.OpOption
	if lease != 0 {
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(lease)))
	}
	if _, err := p.commit(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(key, value, opts...)}}); err != nil {
		panic(err)
	}
}

func (p *play) delete(key string) {
	if _, err := p.commit(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpDelete(key)}}); err != nil {
		panic(err)
	}
}

func (p *play) lookup(key string) *mvccpb.KeyValue {
	if p.real != nil {
		return p.real.lookup(key)
	}
	return p.etcd.Lookup(key)
}

func (p *play) modRev(key string) int64 {
	if kv := p.lookup(key); kv != nil {
		return kv.ModRevision
	}
	return 0
}

// serves is the revision at which a session is registered for a queue, 0 when it is not,
// or has left.
func (p *play) serves(q job.Txns, sid string) int64 {
	if kv := p.lookup(q.Keys.Worker(sid)); kv != nil && !job.DecodeWorker(kv.Value).Left {
		return kv.ModRevision
	}
	return 0
}

// find is where a job is, as somebody reads it: nowhere when it cannot be read, or
// names another job.
func (p *play) find(name string) (job.Snapshot, bool) {
	h := p.homeOf(name)
	for where := job.InJobs; where <= job.InDead; where++ {
		if kv := p.lookup(h.q.Key(where, h.id)); kv != nil {
			r, err := decodeOnce(kv.Value)
			return job.Snapshot{Record: r, Where: where, Rev: kv.ModRevision}, err == nil && r.ID == h.id
		}
	}
	return job.Snapshot{}, false
}

func (p *play) homeOf(name string) home { return p.homes[p.index(name)] }

// decoded remembers records by their bytes: the explorer meets them again and again.
var decoded = map[string]*job.Record{}

func decodeOnce(value []byte) (*job.Record, error) {
	if r, ok := decoded[string(value)]; ok {
		return r, nil
	}
	r, err := job.Decode(value)
	if err == nil {
		decoded[string(value)] = r
	}
	return r, err
}

func (p *play) lives(s job.Owner) bool {
	kv := p.lookup(p.Space.Session(s.ID))
	return kv != nil && kv.CreateRevision == s.Rev
}

func (p *play) conf(t job.Txns) (c job.QueueConfig, rev int64) {
	kv := p.lookup(t.Keys.Config())
	if kv == nil {
		return c, 0
	}
	c, rev, err := job.ConfigIn([]*mvccpb.KeyValue{kv})
	if err != nil {
		panic(err)
	}
	return c, rev
}

// fresh draws a head nonce for a call.
func (p *play) fresh(call int) string {
	p.nonces++
	switch p.nonce {
	case growingNonces:
		return fmt.Sprintf("%016x", 0x1000+p.nonces)
	case shrinkingNonces:
		return fmt.Sprintf("%016x", 0xf000-p.nonces)
	case sameNonces:
		return middleNonce
	}
	p.nonces = 0
	return fmt.Sprintf("%016x", 0x10000+p.epoch+call)
}

// strip takes out the compares that this play must do without.
func (p *play) strip(m *message) {
	if p.drop == nil {
		return
	}
	m.txn.If = slices.DeleteFunc(slices.Clone(m.txn.If), func(c clientv3.Cmp) bool { return p.drop(m.builder, p.describeIn(m, c)) })
}

// describeIn names a compare as races does.
func (p *play) describeIn(m *message, c clientv3.Cmp) string {
	keys := m.q.Keys
	names := map[string]string{
		keys.Config(): "config", m.fence.Key: "leader", m.under.Key: "leader",
		keys.Jobs(): "jobs", keys.DoneJobs(): "done jobs", keys.DeadJobs(): "dead jobs", keys.Workers(): "workers",
	}
	for _, h := range p.homes {
		prefix, name := "", "job"
		switch {
		case h.id != m.id:
			prefix, name = h.id+" ", h.id
		case h != m.home:
			prefix, name = "there ", "there"
		}
		names[h.q.Key(job.InJobs, h.id)], names[h.q.Keys.Progress(h.id)] = name, prefix+"progress"
		names[h.q.Key(job.InDone, h.id)], names[h.q.Key(job.InDead, h.id)] = prefix+"done", prefix+"dead"
	}
	if m.to.ID != "" {
		names[keys.Worker(m.to.ID)] = "worker"
		names[p.Space.Session(m.to.ID)] = "me"
	}
	if r := m.seen.Record; r != nil && r.Claimed() && r.Owner != m.to.ID {
		names[p.Space.Session(r.Owner)] = "owner"
	}
	target := map[pb.Compare_CompareTarget]string{pb.Compare_MOD: "mod", pb.Compare_CREATE: "create", pb.Compare_VALUE: "value"}[c.GetCompare().Target]
	result := map[pb.Compare_CompareResult]string{pb.Compare_EQUAL: "=", pb.Compare_NOT_EQUAL: "!=", pb.Compare_GREATER: ">", pb.Compare_LESS: "<"}[c.GetCompare().Result]
	key := string(c.KeyBytes())
	name := names[key]
	if name == "" {
		panic("no name for the compared key " + key)
	}
	return name + " " + target + " " + result
}
