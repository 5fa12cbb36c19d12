package workqueue

import "strings"

// isLive tells whether what must go on can be told: not where etcd is taken back and
// nobody notices, nor where claims cannot be told from each other.
func (set stageSet) isLive() bool { return set.faults.restored == 0 && set.nonces != sameNonces }

// fair are the lines that go on when no faults happen any more: what is on its way
// arrives, a worker begins what it was assigned, the books settle, leases end.
func (set stageSet) fair() func(line string) bool {
	if !set.isLive() {
		return nil
	}
	return func(line string) bool {
		verb, _, _ := strings.Cut(line, " ")
		switch verb {
		case "arrive", "late", "learn", "take", "settle", "lapse":
			return true
		}
		return false
	}
}
