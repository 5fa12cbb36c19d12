package keyspace

import (
	"strconv"
	"strings"
)

// MaxPermits bounds a semaphore: each permit is a key, and waiting compares them
// all.
const MaxPermits = 100

// ClaimKeys are the keys of claims that sessions queue for: a lock, a leadership,
// or the permits of a semaphore. A plain value.
type ClaimKeys struct {
	Name  string
	What  string // for errors: lock "deploy"
	Root  string // everything of this name
	Only  string // the key of the one claim, or
	Slots string // the prefix of several
	N     int
	Wait  string // the prefix of the waiting entries
}

// Locks is the prefix of all locks.
func (k Keyspace) Locks() string { return k.root + "locks/" }

// Elections is the prefix of all elections.
func (k Keyspace) Elections() string { return k.root + "elections/" }

// Semaphores is the prefix of all semaphores.
func (k Keyspace) Semaphores() string { return k.root + "semaphores/" }

// LockKeys are the keys of a lock.
func (k Keyspace) LockKeys(name string) ClaimKeys {
	root := k.Locks() + escape(name) + "/"
	return ClaimKeys{Name: name, What: "lock " + strconv.Quote(name), Root: root, Only: root + "holder", N: 1, Wait: root + "waiters/"}
}

// ElectionKeys are the keys of an election.
func (k Keyspace) ElectionKeys(name string) ClaimKeys {
	root := k.Elections() + escape(name) + "/"
	return ClaimKeys{Name: name, What: "election " + strconv.Quote(name), Root: root, Only: root + "leader", N: 1, Wait: root + "candidates/"}
}

// SemaphoreKeys are the keys of a semaphore of so many permits.
func (k Keyspace) SemaphoreKeys(name string, permits int) ClaimKeys {
	root := k.Semaphores() + escape(name) + "/"
	return ClaimKeys{Name: name, What: "semaphore " + strconv.Quote(name), Root: root, Slots: root + "slots/", N: permits, Wait: root + "waiters/"}
}

// PermitKeys are the keys of a semaphore of which the number of permits is not known.
func (k Keyspace) PermitKeys(name string) ClaimKeys { return k.SemaphoreKeys(name, MaxPermits) }

// Owns tells whether the key is one that we would build: of a slot or a waiting entry.
func (k ClaimKeys) Owns(key string) bool {
	if n, ok := strings.CutPrefix(key, k.Slots); ok && k.Only == "" {
		i, err := strconv.Atoi(n)
		return err == nil && 0 <= i && i < k.N && k.Slot(i) == key
	}
	return key == k.Only || strings.HasPrefix(key, k.Wait)
}

// Slot is the key of the i-th claim.
func (k ClaimKeys) Slot(i int) string {
	if k.Only != "" {
		return k.Only
	}
	return k.Slots + strconv.Itoa(i)
}

// Entry is the key of one waiting entry.
func (k ClaimKeys) Entry(sid string, n int64) string {
	return k.Wait + sid + "-" + strconv.FormatInt(n, 10)
}

// Lock is the prefix of everything of one lock.
func (k Keyspace) Lock(name string) string { return k.LockKeys(name).Root }

// Election is the prefix of everything of one election.
func (k Keyspace) Election(name string) string { return k.ElectionKeys(name).Root }
