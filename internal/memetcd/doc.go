// Package memetcd is etcd's key space in memory, as a value: exactly the semantics
// of Txns, leases, compaction and watch events that Leasekit relies on, and nothing
// that happens by itself. There is no goroutine, no clock and no network. A lease
// ends when somebody says so, and a request is answered before its call returns.
//
// A [Store] is a plain value: assigning it copies the whole state, in constant time,
// and neither copy sees what the other does afterwards. That is what an exhaustive
// search needs: it keeps a state, tries a step, and goes back.
//
//	var s memetcd.Store
//	s.Grant(7, 10)
//	before := s // what a backup holds
//	s.Commit(cmps, then, els)
//	s = before // what a restore does
//
// Requests are etcd's own messages, so they can be built by the real client: see
// [Store.Commit]. What a test of Leasekit never needs is refused with Unimplemented
// instead of being answered wrongly: sorting by something else than the key, and
// filters by revision. That everything else is answered as a real server does is
// checked by running the same random programs on both.
//
// Three things differ on purpose. Grant answers the TTL that was asked for: a server
// raises it to its minimum. A store remembers its whole history, so compaction frees
// nothing; it only makes old revisions unreadable, as it does on a server. And a watch
// from exactly the compacted revision, which a server may or may not answer whole, is
// answered whole.
package memetcd
