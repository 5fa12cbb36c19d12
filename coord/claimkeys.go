package coord

import (
	"strconv"
	"strings"
)

// maxPermits bounds a semaphore: each permit is a key, and waiting compares them
// all.
const maxPermits = 100

// claimKeys are the keys of claims that sessions queue for: a lock, a leadership,
// or the permits of a semaphore. A plain value.
type claimKeys struct {
	name  string
	what  string // for errors: lock "deploy"
	root  string // everything of this name
	only  string // the key of the one claim, or
	slots string // the prefix of several
	n     int
	wait  string // the prefix of the waiting entries
}

// Locks is the prefix of all locks.
func (k Keyspace) Locks() string { return k.root + "locks/" }

// Elections is the prefix of all elections.
func (k Keyspace) Elections() string { return k.root + "elections/" }

// Semaphores is the prefix of all semaphores.
func (k Keyspace) Semaphores() string { return k.root + "semaphores/" }

func (k Keyspace) lock(name string) claimKeys {
	root := k.Locks() + escape(name) + "/"
	return claimKeys{name: name, what: "lock " + strconv.Quote(name), root: root, only: root + "holder", n: 1, wait: root + "waiters/"}
}

func (k Keyspace) election(name string) claimKeys {
	root := k.Elections() + escape(name) + "/"
	return claimKeys{name: name, what: "election " + strconv.Quote(name), root: root, only: root + "leader", n: 1, wait: root + "candidates/"}
}

func (k Keyspace) semaphore(name string, permits int) claimKeys {
	root := k.Semaphores() + escape(name) + "/"
	return claimKeys{name: name, what: "semaphore " + strconv.Quote(name), root: root, slots: root + "slots/", n: permits, wait: root + "waiters/"}
}

// permits are the keys of a semaphore of which the number of permits is not known.
func (k Keyspace) permits(name string) claimKeys { return k.semaphore(name, maxPermits) }

// owns tells whether the key is one that we would build: of a slot or a waiting entry.
func (k claimKeys) owns(key string) bool {
	if n, ok := strings.CutPrefix(key, k.slots); ok && k.only == "" {
		i, err := strconv.Atoi(n)
		return err == nil && 0 <= i && i < k.n && k.slot(i) == key
	}
	return key == k.only || strings.HasPrefix(key, k.wait)
}

// slot is the key of the i-th claim.
func (k claimKeys) slot(i int) string {
	if k.only != "" {
		return k.only
	}
	return k.slots + strconv.Itoa(i)
}

// entry is the key of one waiting entry.
func (k claimKeys) entry(sid string, n int64) string {
	return k.wait + sid + "-" + strconv.FormatInt(n, 10)
}

// Lock is the prefix of everything of one lock.
func (k Keyspace) Lock(name string) string { return k.lock(name).root }

// Election is the prefix of everything of one election.
func (k Keyspace) Election(name string) string { return k.election(name).root }
