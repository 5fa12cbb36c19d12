// Package coord holds what every part of Leasekit stands on: sessions, fences, locks
// and semaphores.
//
// # One idea
//
// A claim is an etcd key whose record names an owner session. The key's mod
// revision at the moment of the claim is its fencing token. The owner is alive
// exactly as long as its session key exists, and only an etcd lease decides
// that. Whoever writes a result proves, inside the same Txn, that the token is
// still current.
//
// # Who does what
//
//   - A [Session] is one process's liveness: one lease, one key, one renewal
//     stream, and a trust window that ends before the server can give the lease
//     to somebody else. When the window ends, Done closes and every context
//     from [Session.Context] is cancelled with cause [ErrSessionLost]. A lost
//     session is never resurrected.
//   - A [Fence] is the proof that a claim is current, as compares for anybody's
//     Txn. [Session.Commit] is a write that carries fences: it is applied,
//     refused with a [FencedError], or [ErrUnknown]. There is no other kind of
//     result write.
//   - Every write travels in a lane: a key that each batch of writes rewrites under
//     a compare of its own revision. So a repeated or late batch is refused, and a
//     lost answer is resolved by reading what each write did at the lane's revision.
//     What waits while a batch is in flight travels as the next one (group commit),
//     each write as a nested Txn that succeeds or loses alone.
//   - A [Lock] and a [Semaphore] are claims that sessions queue for; a [Hold] is one
//     that was acquired.
//   - A [SessionKeeper] keeps one live session per process, the next incarnation after
//     a loss.
//
// # States of a session
//
//	opening --grant, put, first renewal--> live --Close--> closed
//	                                        |
//	                                        +--trust window over, lease gone,
//	                                           key deleted, history rewound--> lost
//
// # What is not promised
//
// That an owner stops working: a paused process runs on when it wakes, until it
// looks at its context. That is why results carry fences. Nor is anything
// promised against a client that writes our keys by hand.
package coord
