package line

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/memetcd"
)

// A lockPlay is a lock, or a semaphore, the sessions that want it, and etcd, as one
// value: copying it copies the whole world. Everything that decides is the code under
// test: viewOf, decide, current, and the builders of Txns. It is moved by lines:
//
//	send acquire s1 0      s1 asks for permit 0 without looking
//	send next s1           s1 looks, and asks for what decide says
//	send seize s1          as next, but s1 believes that all owners are gone
//	send release s1        s1 looks, and gives its permit up
//	send transfer s1 s2    s1 looks, and hands its permit to s2
//	send quit s1           s1 looks, and takes back what is there of it
//	send commit s1         s1 writes elsewhere under its fence
//	send force op s1       an operator takes the permit of s1's away
//	arrive s1, unheard s1  as in the plays of the queue
//	expire s1, evict s1    the session's lease ends; its key alone is deleted
//	lose s1, late s1       the sender gives up; what it sent arrives later
//	deny s1                etcd refuses the request outright
//	step s1                s1 goes on by itself, with whatever it is doing
//	lapse s1               the lease ends of a session whose key is gone
//	backup, restore        etcd is taken back, and nobody notices
type lockPlay struct {
	*lockScript
	etcd   memetcd.Store
	actors []lockActor
	late   []*lockMessage
	told   lockSpec
	backup *lockBackup
	spent  lockFaults
}

// lockScript is what stays the same throughout.
type lockScript struct {
	Txns
	names  map[string]int
	drop   func(builder, compare string) bool
	shrink bool // nonces
	lacks  lockKeepers
}

type lockBackup struct {
	etcd memetcd.Store
	told lockSpec
}

type lockFaults struct{ lost, expired, evicted, junk, restored, nonces, denied int }

// lockActor is one session, and its one call of Acquire at a time.
type lockActor struct {
	name   string
	me     Claimant
	lease  int64
	wants  bool // a call is under way, or a permit is held
	quits  bool // it gives up
	entry  string
	entRev int64
	hold   etcdkv.Fence
	flight *lockMessage
	calls  int
	opened int
	lined  int // counts its entries

	closing  *lockClosing
	gave     bool // its hold was given up by what it sent
	followed bool // its hold was followed by a claim, or nothing: next
	next     string
}

// lockMessage is a request on its way.
type lockMessage struct {
	who     int
	verb    string
	builder string
	txn     etcdkv.Txn
	slot    int
	fence   etcdkv.Fence
	heir    int // -1: nobody
	owner   int // of the slot as it was seen, -1: nobody
	me      Claimant
	entry   string
}

// lockSpec is what must be so: who has which permit, by which requests were applied.
type lockSpec struct {
	slots []slotSpec
	wants []string // the nonce that each actor's call waits with; "" when it does not wait
}

type slotSpec struct {
	owner int // -1: nobody
	nonce string
	token int64
	free  bool // there, but nobody's
}

func (s lockSpec) copy() lockSpec {
	s.slots, s.wants = slices.Clone(s.slots), slices.Clone(s.wants)
	return s
}

var (
	errLockCannot = errors.New("cannot")
	errUntrue     = errors.New("violated")
)

func lockViolation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUntrue, fmt.Sprintf(format, args...))
}

func newLockPlay(permits int, names ...string) *lockPlay {
	space, err := keyspace.New("/p/")
	if err != nil {
		panic(err)
	}
	keys := space.LockKeys("l")
	if permits > 1 {
		keys = space.SemaphoreKeys("l", permits)
	}
	p := &lockPlay{lockScript: &lockScript{Txns: Txns{Space: space, Keys: keys}, names: map[string]int{}}}
	for range permits {
		p.told.slots = append(p.told.slots, slotSpec{owner: -1})
	}
	for i, name := range names {
		a := lockActor{name: name, lease: int64(100 + i)}
		if name[0] == 's' {
			a.me.Session = fmt.Sprintf("%s.%016x", name, i+1)
			must(p.etcd.Grant(a.lease, 60))
			p.put(space.Session(a.me.Session), "{}", a.lease)
			a.me.Rev = p.etcd.Lookup(space.Session(a.me.Session)).CreateRevision
		}
		p.names[name] = i
		p.actors, p.told.wants = append(p.actors, a), append(p.told.wants, "")
	}
	return p
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (p *lockPlay) put(key, value string, lease int64) {
	var opts []clientv3.OpOption
	if lease != 0 {
		opts = append(opts, clientv3.WithLease(clientv3.LeaseID(lease)))
	}
	_, err := p.etcd.Commit(nil, []clientv3.Op{clientv3.OpPut(key, value, opts...)}, nil)
	must(err)
}

func (p *lockPlay) copy() *lockPlay {
	c := *p
	c.actors, c.late, c.told = slices.Clone(p.actors), slices.Clone(p.late), p.told.copy()
	return &c
}

func (p *lockPlay) lives(i int) bool {
	kv := p.etcd.Lookup(p.Space.Session(p.actors[i].me.Session))
	return kv != nil && kv.CreateRevision == p.actors[i].me.Rev
}

// view is what a look at the keys shows, owners included.
func (p *lockPlay) view() View {
	found := func(prefix string) *pb.RangeResponse {
		r, err := p.etcd.Range(&pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix))})
		must(err)
		return r
	}
	slots := p.Keys.Slots
	if p.Keys.Only != "" {
		slots = p.Keys.Only
	}
	v := viewOf(p.Keys, found(slots).Kvs, found(p.Keys.Wait).Kvs, p.etcd.Rev())
	for i := range v.Slots {
		if s := &v.Slots[i]; s.Owner != "" {
			kv := p.etcd.Lookup(p.Space.Session(s.Owner))
			s.dead = kv == nil || kv.CreateRevision != s.OwnerRev
		}
	}
	return v
}

func (p *lockPlay) actorOf(sid string) int {
	if sid == "" {
		return -1
	}
	return slices.IndexFunc(p.actors, func(a lockActor) bool { return a.me.Session == sid })
}

func (p *lockPlay) slotOf(key string) int {
	for i := range p.Keys.N {
		if p.Keys.Slot(i) == key {
			return i
		}
	}
	return -1
}

// run does what one line says.
func (p *lockPlay) run(line string) error {
	words := strings.Fields(line)
	verb, words := words[0], words[1:]
	switch verb {
	case "backup":
		p.backup = &lockBackup{p.etcd, p.told.copy()}
		return nil
	case "restore":
		p.spent.restored++
		p.etcd, p.told = p.backup.etcd, p.backup.told.copy()
		return nil
	case "junk":
		p.spent.junk++
		p.put(p.Keys.Wait+"junk", "junk", 0)
		return nil
	case "send":
		return p.send(words[0], p.names[words[1]], words[2:])
	}
	who := p.names[words[0]]
	switch verb {
	case "arrive":
		return p.arrive(who, true)
	case "unheard":
		p.spent.lost++
		return p.arrive(who, false)
	case "lose":
		return p.lose(who)
	case "late":
		return p.lateArrives(who)
	case "deny":
		p.spent.denied++
		return p.deny(who)
	case "step":
		return p.step(who)
	case "lapse":
		return p.lapse(who)
	case "expire":
		p.spent.expired++
		return p.end(who, func() error { return p.etcd.Revoke(p.actors[who].lease) })
	case "evict":
		p.spent.evicted++
		return p.end(who, func() error {
			_, err := p.etcd.Commit(nil, []clientv3.Op{clientv3.OpDelete(p.Space.Session(p.actors[who].me.Session))}, nil)
			return err
		})
	}
	return fmt.Errorf("nobody knows how to %s", verb)
}

// end ends a session. A waiting call ends with it.
func (p *lockPlay) end(who int, how func() error) error {
	if !p.lives(who) {
		return errLockCannot
	}
	if err := how(); err != nil {
		return err
	}
	p.withdrawn()
	return nil
}

// withdrawn notes which entries have gone with their leases.
func (p *lockPlay) withdrawn() {
	p.told = p.told.copy()
	for i, nonce := range p.told.wants {
		if !slices.ContainsFunc(p.view().Entries, func(e Entry) bool { return e.Claim == nonce }) {
			p.told.wants[i] = ""
		}
	}
}

// describe names a compare as claimRaces does.
func (p *lockPlay) describe(m *lockMessage, c clientv3.Cmp) string {
	key, name := string(c.KeyBytes()), ""
	switch i := p.slotOf(key); {
	case i >= 0 && (i == m.slot && m.builder != "enqueue" || m.builder == "enqueue" && i == 0):
		name = "slot"
	case i >= 0:
		name = "other slot"
	case key == p.Keys.Wait:
		name = "waiters"
	case key == m.entry && m.heir >= 0:
		name = "heir entry"
	case key == m.entry:
		name = "entry"
	case key == p.Space.Session(m.me.Session) && m.heir >= 0:
		name = "heir"
	case key == p.Space.Session(m.me.Session):
		name = "me"
	default:
		name = "owner"
	}
	target := map[pb.Compare_CompareTarget]string{pb.Compare_MOD: "mod", pb.Compare_CREATE: "create", pb.Compare_VALUE: "value"}[c.GetCompare().Target]
	result := map[pb.Compare_CompareResult]string{pb.Compare_EQUAL: "=", pb.Compare_NOT_EQUAL: "!=", pb.Compare_GREATER: ">", pb.Compare_LESS: "<"}[c.GetCompare().Result]
	return name + " " + target + " " + result
}
