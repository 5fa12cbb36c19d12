package line

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// State is who holds a lock or a permit, or leads, and who waits for it.
type State struct {
	// Name is the lock's, election's or semaphore's.
	Name string
	// Permit is the permit's number, from 0; 0 for locks and elections.
	Permit int
	// Key is the claimed key, to watch for changes behind Revision.
	Key string
	// Owner is the session that holds the claim, or empty.
	Owner string
	// Token is the claim's, zero without an owner.
	Token int64
	// Since is when it was claimed, by the claimant's clock.
	Since time.Time
	// OwnerGone tells that the owner's session is gone: the claim can be taken.
	OwnerGone bool
	// Waiters are the sessions that wait, first in line first.
	Waiters []string
	// ForcedBy and Reason tell who took the claim from the owner before, where that
	// was done by [ForceRelease].
	ForcedBy, Reason string
	// Revision is the one at which owner and waiters were read.
	Revision int64

	keys  keyspace.ClaimKeys
	nonce string
}

// Waiter finds one who waits: by session id, or by an identity that one waiting
// session has. The error wraps [fault.ErrInvalid] when it is nobody, or more than one.
func (st State) Waiter(name string) (sid string, err error) {
	var found []string
	for _, w := range st.Waiters {
		if w == name {
			return w, nil
		}
		if strings.HasPrefix(w, keyspace.EscapeIdentity(name)+".") && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &fault.InputError{Field: "waiter", Value: name, Reason: "no such session or identity waits for " + st.keys.What}
	}
	return "", &fault.InputError{Field: "waiter", Value: name, Reason: "more than one waits under that identity: name the session, one of " + strings.Join(found, ", ")}
}

// LockState reads, without a session, who holds a lock and who waits.
func LockState(ctx context.Context, s *etcdkv.Store, name string) (State, error) {
	if err := keyspace.ValidateName("lock", name); err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	return Reader{s, s.Keys().LockKeys(name)}.State(ctx)
}

// LeadershipState reads, without a session, who leads an election and who waits.
func LeadershipState(ctx context.Context, s *etcdkv.Store, name string) (State, error) {
	if err := keyspace.ValidateName("election", name); err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	return Reader{s, s.Keys().ElectionKeys(name)}.State(ctx)
}

// SemaphoreState reads, without a session, who holds the permits of a semaphore, by
// number, and who waits. A permit that was never held, or was given back, does not
// show: how many there are is only known to those who use them.
func SemaphoreState(ctx context.Context, s *etcdkv.Store, name string) ([]State, error) {
	if err := keyspace.ValidateName("semaphore", name); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	c := Reader{s, s.Keys().PermitKeys(name)}
	v, err := c.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.Keys.What, err)
	}
	return statesOf(c.Keys, v), nil
}

// stateOf is what a view shows of one slot.
func stateOf(k keyspace.ClaimKeys, v View, i int) State {
	s := v.Slots[i]
	st := State{
		Name: k.Name, Permit: i, Key: s.Key, Owner: s.Owner, Since: s.Since, OwnerGone: s.dead, Revision: v.Rev,
		ForcedBy: s.By, Reason: s.Reason, keys: k, nonce: s.Nonce,
	}
	if s.Owner != "" {
		st.Token = s.Rev
	}
	for _, e := range v.Entries {
		st.Waiters = append(st.Waiters, e.Session)
	}
	return st
}

// states are those of the slots that are there; of the first one where only waiters are.
func statesOf(k keyspace.ClaimKeys, v View) (all []State) {
	for i, s := range v.Slots {
		if s.Rev != 0 {
			all = append(all, stateOf(k, v, i))
		}
	}
	if all == nil && len(v.Entries) > 0 {
		all = append(all, stateOf(k, v, 0))
	}
	return all
}

// LockStates reads, without a session, all locks that are held or waited for, by name
// and at one revision. It blocks as [etcdkv.Store.List] does.
func LockStates(ctx context.Context, s *etcdkv.Store) ([]State, error) {
	return claimStates(ctx, s, s.Keys().Locks(), s.Keys().LockKeys)
}

// ElectionStates reads all elections that have a leader or candidates, as
// [LockStates] does.
func ElectionStates(ctx context.Context, s *etcdkv.Store) ([]State, error) {
	return claimStates(ctx, s, s.Keys().Elections(), s.Keys().ElectionKeys)
}

// SemaphoreStates reads the permits of all semaphores, as [LockStates] and
// [SemaphoreState] do.
func SemaphoreStates(ctx context.Context, s *etcdkv.Store) ([]State, error) {
	return claimStates(ctx, s, s.Keys().Semaphores(), s.Keys().PermitKeys)
}

// claimStates reads all claims under a prefix with two requests: their keys, and the
// sessions as they were then.
func claimStates(ctx context.Context, s *etcdkv.Store, prefix string, keys func(name string) keyspace.ClaimKeys) (all []State, err error) {
	resp, err := s.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	lives, err := sessionsAt(ctx, s, resp.Header.Revision, len(resp.Kvs))
	if err != nil {
		return nil, err
	}
	for name, kvs := range namesIn(prefix, resp.Kvs, keys) {
		k := keys(name)
		var slots, entries []*mvccpb.KeyValue
		for _, kv := range kvs {
			if strings.HasPrefix(string(kv.Key), k.Wait) {
				entries = append(entries, kv)
			} else {
				slots = append(slots, kv)
			}
		}
		v := viewOf(k, slots, entries, resp.Header.Revision)
		for i := range v.Slots {
			sl := &v.Slots[i]
			sl.dead = sl.Owner != "" && lives[sl.Owner] != sl.OwnerRev
		}
		all = append(all, statesOf(k, v)...)
	}
	slices.SortStableFunc(all, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// sessionsAt reads at which revisions the sessions that lived then had begun.
// Without claims it reads nothing: there is no owner to look up.
func sessionsAt(ctx context.Context, s *etcdkv.Store, rev int64, claims int) (map[string]int64, error) {
	if claims == 0 {
		return nil, nil
	}
	created, prefix := map[string]int64{}, s.Keys().Sessions()
	_, err := s.Scan(ctx, prefix, rev, func(kvs []*mvccpb.KeyValue) bool {
		for _, kv := range kvs {
			created[string(kv.Key[len(prefix):])] = kv.CreateRevision
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return created, nil
}

// LockNames lists the locks that are held or waited for, sorted.
func LockNames(ctx context.Context, s *etcdkv.Store) ([]string, error) {
	return claimNames(ctx, s, s.Keys().Locks(), s.Keys().LockKeys)
}

// ElectionNames lists the elections that have a leader or candidates, sorted.
func ElectionNames(ctx context.Context, s *etcdkv.Store) ([]string, error) {
	return claimNames(ctx, s, s.Keys().Elections(), s.Keys().ElectionKeys)
}

// SemaphoreNames lists the semaphores that are held or waited for, sorted.
func SemaphoreNames(ctx context.Context, s *etcdkv.Store) ([]string, error) {
	return claimNames(ctx, s, s.Keys().Semaphores(), s.Keys().PermitKeys)
}

func claimNames(ctx context.Context, s *etcdkv.Store, prefix string, keys func(name string) keyspace.ClaimKeys) ([]string, error) {
	resp, err := s.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return slices.Sorted(maps.Keys(namesIn(prefix, resp.Kvs, keys))), nil
}

// namesIn sorts keys under a prefix by the name that they belong to. Keys that we
// would not build are left out.
func namesIn(prefix string, kvs []*mvccpb.KeyValue, keys func(name string) keyspace.ClaimKeys) map[string][]*mvccpb.KeyValue {
	found := map[string][]*mvccpb.KeyValue{}
	for _, kv := range kvs {
		key := string(kv.Key)
		segment, _, _ := strings.Cut(key[len(prefix):], "/")
		if name, ok := keyspace.Unescape(segment); ok && keys(name).Owns(key) {
			found[name] = append(found[name], kv)
		}
	}
	return found
}
