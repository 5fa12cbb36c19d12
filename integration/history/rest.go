package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Lease is a lease of a session's size, with what hangs on it.
type Lease struct {
	ID   int64
	Keys []string
}

// Claimed is a claim of a live session, as etcd has it: of a job, a lock, a permit or a
// leadership.
type Claimed struct {
	Key     string
	Token   int64
	Session string
	// Queue and ID are the job's, Name is that of the lock, semaphore or election.
	Queue, ID, Name string
}

// Rest is what to hold a run against that has calmed down: what etcd has at one
// revision, and what the processes say.
type Rest struct {
	Root  string
	Final *Final
	// Leases are those that [ReadLeases] found.
	Leases []Lease
	// Sessions is how many sessions each living process has at most, by identity; it has
	// one at least.
	Sessions map[string]int
	// Elections are those that have a live candidate, so that a leader has to run.
	Elections []string
	// Runs tells whether the process of a claim runs it, or is closing it.
	Runs func(Claimed) bool
}

// RestPrefixes are what has to be read at one revision for [Rest].
func RestPrefixes(root string, queues ...string) ([]string, error) {
	keys, err := keyspace.New(root)
	if err != nil {
		return nil, err
	}
	prefixes := []string{keys.Sessions(), keys.Locks(), keys.Semaphores(), keys.Elections()}
	for _, name := range queues {
		q := keys.Queue(name)
		prefixes = append(prefixes, q.Workers(), q.Jobs(), q.Prefix()+"assigned/")
	}
	return prefixes, nil
}

// longLease is the granted TTL in seconds from which on a lease belongs to no session:
// lanes and retention have such, and end with their own.
const longLease = 600

// ReadLeases lists the leases that a session may be on. Known holds the granted TTLs
// that were read before, since they never change.
func ReadLeases(ctx context.Context, cl *clientv3.Client, known map[clientv3.LeaseID]int64) ([]Lease, error) {
	all, err := cl.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	var found []Lease
	for _, l := range all.Leases {
		if known[l.ID] >= longLease {
			continue
		}
		resp, err := cl.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return nil, fmt.Errorf("read lease %x: %w", int64(l.ID), err)
		}
		if known[l.ID] = resp.GrantedTTL; resp.TTL < 0 || resp.GrantedTTL >= longLease {
			continue
		}
		lease := Lease{ID: int64(l.ID)}
		for _, k := range resp.Keys {
			lease.Keys = append(lease.Keys, string(k))
		}
		found = append(found, lease)
	}
	return found, nil
}

// Unrest is what is not as it must be once faults have healed, one line for each key,
// lease, identity or election, in order:
//
//   - a claim of a live session that its process neither runs nor closes;
//   - an inbox entry without its claim, a registration or a waiting entry without its
//     session;
//   - a session, or a lease, that no living process has;
//   - an election whose candidates have no leader who runs.
func (r Rest) Unrest() ([]string, error) {
	keys, err := keyspace.New(r.Root)
	if err != nil {
		return nil, err
	}
	c := &restCheck{Rest: r, keys: keys, sessions: map[string]KV{}}
	c.readSessions()
	for key, kv := range r.Final.KVs {
		if p, ok := keys.Parse(key); ok {
			c.look(key, p, kv)
		}
	}
	c.elections()
	c.leases()
	slices.Sort(c.found)
	return c.found, nil
}

type restCheck struct {
	Rest
	keys     keyspace.Keyspace
	sessions map[string]KV
	found    []string
}

func (c *restCheck) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// readSessions counts the sessions of each identity.
func (c *restCheck) readSessions() {
	counts := map[string]int{}
	for key, kv := range c.Final.KVs {
		if p, ok := c.keys.Parse(key); ok && p.Kind == "sessions" {
			c.sessions[p.Session] = kv
			counts[keyspace.IdentityOf(p.Session)]++
		}
	}
	for identity, n := range counts {
		if most := c.Sessions[identity]; n > most {
			c.say("identity %s has %d sessions, and its process has %d at most", identity, n, most)
		}
	}
	for identity := range c.Sessions {
		if counts[identity] == 0 {
			c.say("identity %s has no session, and its process lives", identity)
		}
	}
}

// look judges one key.
func (c *restCheck) look(key string, p keyspace.ParsedKey, kv KV) {
	switch p.Kind {
	case "jobs":
		c.claim(Claimed{Key: key, Token: kv.ModRev, Queue: p.Queue, ID: p.ID}, kv)
	case "assigned":
		job := c.keys.Queue(p.Queue).Job(p.ID)
		if _, lives := c.sessions[p.Session]; !lives {
			c.say("inbox entry %s: its session is gone", key)
		} else if c.Final.KVs[job].ModRev != kv.ModRev {
			c.say("inbox entry %s: the job is not claimed by that", key)
		}
	case "workers":
		if _, lives := c.sessions[p.Session]; !lives {
			c.say("registration %s: its session is gone", key)
		}
	case "locks", "elections", "semaphores":
		if p.Session == "" {
			c.claim(Claimed{Key: key, Token: kv.ModRev, Name: p.Name}, kv)
		} else if _, lives := c.sessions[p.Session]; !lives {
			c.say("waiting entry %s: its session is gone", key)
		} else if p.Kind != "elections" {
			c.waits(key, p, kv)
		}
	}
}

// claim judges a claim, where there is one: that of a dead session may be taken.
func (c *restCheck) claim(claim Claimed, kv KV) {
	owner, rev := ownerOf(kv.Value)
	s, lives := c.sessions[owner]
	if owner == "" || !lives || s.CreateRev != rev {
		return
	}
	if claim.Session = owner; !c.Runs(claim) {
		c.say("claim %s, token %d, of live session %s: its process does not run it", claim.Key, claim.Token, owner)
	}
}

// waits judges an entry of one who waits, which its process says like a claim, with no
// token.
func (c *restCheck) waits(key string, p keyspace.ParsedKey, kv KV) {
	if !c.Runs(Claimed{Key: key, Session: p.Session, Name: p.Name}) {
		c.say("waiting entry %s, put at %d: its process does not wait", key, kv.ModRev)
	}
}

// ownerOf reads whose claim a record is; "" is nobody's.
func ownerOf(value []byte) (sid string, rev int64) {
	var r struct {
		Owner    string `json:"owner"`
		OwnerRev int64  `json:"owner_rev,string"`
	}
	if json.Unmarshal(value, &r) != nil {
		return "", 0
	}
	return r.Owner, r.OwnerRev
}

// elections: the leader lives, and claim has found that it runs.
func (c *restCheck) elections() {
	for _, name := range c.Elections {
		kv := c.Final.KVs[c.keys.Election(name)+"leader"]
		owner, rev := ownerOf(kv.Value)
		if s, lives := c.sessions[owner]; owner == "" || !lives || s.CreateRev != rev {
			c.say("election %s has no living leader", name)
		}
	}
}

// leases: each is a session's.
func (c *restCheck) leases() {
	for _, l := range c.Leases {
		if !slices.ContainsFunc(l.Keys, func(key string) bool {
			p, ok := c.keys.Parse(key)
			return ok && p.Kind == "sessions"
		}) {
			c.say("lease %x is no session's: %q", l.ID, l.Keys)
		}
	}
}
