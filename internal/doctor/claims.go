package doctor

import (
	"context"
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// claim is a lock or an election: who has it, and who waits.
type claim struct {
	name    string
	key     string // of the holder or leader
	rev     int64  // 0: absent
	waiting int
	// waits is the prefix of those who wait.
	Owner    string    `json:"owner"`
	OwnerRev int64     `json:"owner_rev,string"`
	Since    time.Time `json:"since"`
}

// readClaims reads locks and elections, and the leases of those who wait for permits.
func (l *look) readClaims(ctx context.Context, r reader, keys keyspace.Keyspace) error {
	for _, dir := range []struct {
		name, prefix string
		into         map[string]*claim
	}{{dirLocks, keys.Locks(), l.locks}, {dirElections, keys.Elections(), l.elections}, {"semaphores", keys.Semaphores(), nil}} {
		whole, err := r.scan(ctx, dir.prefix, false, func(kvs []*mvccpb.KeyValue) error {
			for _, kv := range kvs {
				p, ok := keys.Parse(string(kv.Key))
				switch {
				case !ok || misnamed(p) != nil:
				case p.Session != "" && kv.Lease != int64(p.Lease()):
					l.leaseless = append(l.leaseless, kv)
				case dir.into != nil:
					claimIn(dir.into, p.Name).add(p, kv)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !whole {
			l.deny(dir.name, dir.prefix)
		}
	}
	return nil
}

func claimIn(all map[string]*claim, name string) *claim {
	c := all[name]
	if c == nil {
		c = &claim{name: name}
		all[name] = c
	}
	return c
}

func (c *claim) add(p keyspace.ParsedKey, kv *mvccpb.KeyValue) {
	if p.Session != "" {
		c.waiting++
		return
	}
	c.key, c.rev = string(kv.Key), kv.ModRevision
	if json.Unmarshal(kv.Value, c) != nil {
		c.Owner = "" // nobody owns a record that nobody can read
	}
}

// held tells whether somebody has the claim whose session lives.
func (l *look) held(c *claim) bool { return c != nil && c.Owner != "" && l.lives(c.Owner, c.OwnerRev) }
