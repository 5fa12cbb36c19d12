package look

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
)

// Session is a session key: who has it, and its lease.
type Session struct {
	Identity string    `json:"identity"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	TTL      int64     `json:"ttl_seconds"`
	Opened   time.Time `json:"opened_at"`

	ID        string           `json:"-"`
	Lease     clientv3.LeaseID `json:"-"`
	createRev int64
	rev       int64
}

// ReadSessions reads all sessions of the root, and tells at which revision.
func ReadSessions(ctx context.Context, s *etcdkv.Store) (all []Session, rev int64, err error) {
	prefix := s.Keys().Sessions()
	resp, err := s.List(ctx, prefix)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", prefix, err)
	}
	for _, kv := range resp.Kvs {
		if info, ok := sessionOf(s.Keys(), kv); ok {
			all = append(all, info)
		}
	}
	return all, resp.Header.Revision, nil
}

// sessionOf reads one session key; ok is false for a foreign key. A value that cannot be read leaves what the key tells.
func sessionOf(keys keyspace.Keyspace, kv *mvccpb.KeyValue) (info Session, ok bool) {
	p, ok := keys.Parse(string(kv.Key))
	if !ok || p.Kind != "sessions" {
		return info, false
	}
	_ = json.Unmarshal(kv.Value, &info)
	info.ID, info.Lease, info.createRev, info.rev = p.Session, clientv3.LeaseID(kv.Lease), kv.CreateRevision, kv.ModRevision
	if info.Identity == "" {
		info.Identity = keyspace.IdentityOf(info.ID)
	}
	return info, true
}

// LeaseHex is a lease ID as etcdctl prints it.
func LeaseHex(id clientv3.LeaseID) string { return fmt.Sprintf("%016x", int64(id)) }

// leaseTimeout bounds one question about a lease.
const leaseTimeout = 3 * time.Second

// leaseLeft is what is left of a lease, and what was granted; zero when the lease is gone.
type leaseLeft struct {
	Left, Granted time.Duration
	term          uint64 // of the leader that counts it
}

func (t leaseLeft) termText() string {
	if t.Granted == 0 {
		return ""
	}
	return strconv.FormatUint(t.term, 10)
}

// askedAtOnce is how many leases are asked for side by side: etcd tells of one at a time.
const askedAtOnce = 32

// LeaseTimes asks what is left of leases. Without the lease's keys any user may ask.
func LeaseTimes(ctx context.Context, c *connect.Conn, ids []clientv3.LeaseID) (map[clientv3.LeaseID]leaseLeft, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	times := make([]leaseLeft, len(ids))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(askedAtOnce)
	for i, id := range ids {
		if id != clientv3.NoLease {
			asking.Go(func() (err error) {
				times[i], err = askLease(ctx, c, id)
				return err
			})
		}
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	found := map[clientv3.LeaseID]leaseLeft{}
	for i, id := range ids {
		found[id] = times[i]
	}
	return found, nil
}

func askLease(ctx context.Context, c *connect.Conn, id clientv3.LeaseID) (leaseLeft, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	resp, err := c.TimeToLive(ctx, id)
	if err != nil {
		return leaseLeft{}, fmt.Errorf("read lease %s: %w", LeaseHex(id), err)
	}
	if resp.TTL < 0 {
		return leaseLeft{}, nil
	}
	return leaseLeft{time.Duration(resp.TTL) * time.Second, time.Duration(resp.GrantedTTL) * time.Second, resp.RaftTerm}, nil
}
