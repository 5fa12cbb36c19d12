package coord

import (
	"context"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Lock is a lock of a name, held by one acquisition at a time: two goroutines of
// one session exclude each other like two processes. It holds nothing by itself;
// make one wherever it is needed. Safe for concurrent use.
type Lock struct {
	c   *claimable
	err error
}

// NewLock returns the lock of that name for a session. A bad name shows in the
// first call.
func NewLock(s *Session, name string) *Lock {
	return &Lock{c: newClaimable(s, s.store.Keys().LockKeys(name)), err: keyspace.ValidateName("lock", name)}
}

// newLeadership returns the leadership of an election as a lock: the claim on
// which package election stands. Its waiters are the election's candidates.
func newLeadership(s *Session, name string) *Lock {
	return &Lock{c: newClaimable(s, s.store.Keys().ElectionKeys(name)), err: keyspace.ValidateName("election", name)}
}

// Acquire waits in line and returns the hold: first come, first served, among
// those who wait; a dead holder's lock goes to the next when its lease ends. It
// returns by ctx, with its cause, and leaves no entry and no claim behind. Other
// errors: the session's end, [ErrInvalid].
func (l *Lock) Acquire(ctx context.Context) (*Hold, error) { return l.acquire(ctx, true) }

// TryAcquire is Acquire without waiting: [ErrHeld] when the lock is held, or
// others wait for it.
func (l *Lock) TryAcquire(ctx context.Context) (*Hold, error) { return l.acquire(ctx, false) }

func (l *Lock) acquire(ctx context.Context, wait bool) (*Hold, error) {
	if l.err != nil {
		return nil, fmt.Errorf("acquire: %w", l.err)
	}
	return l.c.acquire(ctx, wait)
}

// Semaphore is a number of permits under a name: so many acquisitions hold it at
// a time. All that use a name must agree on the number. Safe for concurrent use.
type Semaphore struct{ l Lock }

// NewSemaphore returns the semaphore of that name for a session, with 1 to 100
// permits. A bad name or number shows in the first call.
func NewSemaphore(s *Session, name string, permits int) *Semaphore {
	err := keyspace.ValidateName("semaphore", name)
	if err == nil && (permits < 1 || permits > keyspace.MaxPermits) {
		err = &fault.InputError{Field: "permits", Value: fmt.Sprint(permits), Reason: fmt.Sprintf("it is between 1 and %d", keyspace.MaxPermits)}
		permits = 1
	}
	return &Semaphore{Lock{c: newClaimable(s, s.store.Keys().SemaphoreKeys(name, permits)), err: err}}
}

// Acquire waits in line for a permit: see [Lock.Acquire].
func (s *Semaphore) Acquire(ctx context.Context) (*Hold, error) { return s.l.acquire(ctx, true) }

// TryAcquire is Acquire without waiting: [ErrHeld] when no permit is free that is
// not meant for one who waits.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Hold, error) { return s.l.acquire(ctx, false) }

// LockState is who holds a lock, or leads, and who waits for it.
type LockState struct {
	// Owner is the session that holds the lock, or empty.
	Owner string
	// Token is the claim's, zero without an owner.
	Token Token
	// Since is when it was claimed, by the claimant's clock.
	Since time.Time
	// OwnerGone tells that the owner's session is gone: the lock can be taken.
	OwnerGone bool
	// Waiters are the sessions that wait, first in line first.
	Waiters []string
	// ForcedBy and Reason tell who took the claim from the owner before, where an
	// operator did.
	ForcedBy, Reason string
}

// State reads who holds the lock and who waits, linearizably. It blocks until the answer,
// ctx's end, or 3 s have passed.
func (l *Lock) State(ctx context.Context) (LockState, error) {
	if l.err != nil {
		return LockState{}, fmt.Errorf("read state: %w", l.err)
	}
	st, err := l.c.State(ctx)
	if err != nil {
		return LockState{}, err
	}
	return LockState{
		Owner: st.Owner, Token: Token(st.Token), Since: st.Since, OwnerGone: st.OwnerGone, Waiters: st.Waiters,
		ForcedBy: st.ForcedBy, Reason: st.Reason,
	}, nil
}
