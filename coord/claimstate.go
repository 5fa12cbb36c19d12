package coord

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ClaimState is who holds a lock, or leads, and who waits for it.
type ClaimState struct {
	// Key is the claimed key, to watch for changes behind Revision.
	Key string
	// Owner is the session that holds the claim, or empty.
	Owner string
	// Token is the claim's, zero without an owner.
	Token Token
	// Since is when it was claimed, by the clock of whoever wrote it.
	Since time.Time
	// OwnerGone tells that the owner's session is gone: the claim can be taken.
	OwnerGone bool
	// Waiters are the sessions that wait, first in line first.
	Waiters []string
	// ForcedBy and Reason tell who took the claim from the owner before, where that
	// was done by [Store.ForceRelease].
	ForcedBy, Reason string
	// Revision is the one at which owner and waiters were read.
	Revision int64

	keys  claimKeys
	nonce string
}

// Waiter finds one who waits: by session id, or by an identity that one waiting
// session has. The error wraps [ErrInvalid] when it is nobody, or more than one.
func (st ClaimState) Waiter(name string) (sid string, err error) {
	var found []string
	for _, w := range st.Waiters {
		if w == name {
			return w, nil
		}
		if strings.HasPrefix(w, escapeIdentity(name)+".") && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &InputError{Field: "waiter", Value: name, Reason: "no such session or identity waits for " + st.keys.what}
	}
	return "", &InputError{Field: "waiter", Value: name, Reason: "more than one waits under that identity: name the session, one of " + strings.Join(found, ", ")}
}

// LockState reads, without a session, who holds a lock and who waits.
func (s *Store) LockState(ctx context.Context, name string) (ClaimState, error) {
	if err := ValidateName("lock", name); err != nil {
		return ClaimState{}, fmt.Errorf("read state: %w", err)
	}
	return claimReader{s, s.keys.lock(name)}.state(ctx)
}

// LeadershipState reads, without a session, who leads an election and who waits.
func (s *Store) LeadershipState(ctx context.Context, name string) (ClaimState, error) {
	if err := ValidateName("election", name); err != nil {
		return ClaimState{}, fmt.Errorf("read state: %w", err)
	}
	return claimReader{s, s.keys.election(name)}.state(ctx)
}

func (c claimReader) state(ctx context.Context) (ClaimState, error) {
	v, err := c.read(ctx)
	if err != nil {
		return ClaimState{}, fmt.Errorf("read %s: %w", c.keys.what, err)
	}
	s := v.slots[0]
	st := ClaimState{
		Key: s.key, Owner: s.Owner, Since: s.Since, OwnerGone: s.dead, Revision: v.rev,
		ForcedBy: s.By, Reason: s.Reason, keys: c.keys, nonce: s.nonce,
	}
	if s.Owner != "" {
		st.Token = Token(s.rev)
	}
	for _, e := range v.entries {
		st.Waiters = append(st.Waiters, e.Session)
	}
	return st, nil
}

// LockNames lists the locks that are held or waited for, sorted.
func (s *Store) LockNames(ctx context.Context) ([]string, error) {
	return s.claimNames(ctx, s.keys.Locks(), s.keys.lock)
}

// ElectionNames lists the elections that have a leader or candidates, sorted.
func (s *Store) ElectionNames(ctx context.Context) ([]string, error) {
	return s.claimNames(ctx, s.keys.Elections(), s.keys.election)
}

// claimNames lists the names under a prefix whose keys we would build. Foreign keys
// are left out.
func (s *Store) claimNames(ctx context.Context, prefix string, keys func(name string) claimKeys) ([]string, error) {
	resp, err := s.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	var names []string
	for _, kv := range resp.Kvs {
		segment, _, _ := strings.Cut(string(kv.Key[len(prefix):]), "/")
		name, ok := unescape(segment)
		if k := keys(name); !ok || string(kv.Key) != k.only && !strings.HasPrefix(string(kv.Key), k.wait) {
			continue
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
