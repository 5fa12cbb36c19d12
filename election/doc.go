// Package election runs work on one process at a time: the leader of a name.
//
// # Terms
//
//	candidate --first in line, and the leader's claim is free or its owner dead--> leader
//	leader --fn returns, Resign, Run's ctx ends--> claim handed to the next in line
//	leader --session lost, claim taken away------> fn's ctx ends; the claim is an orphan or another's
//
// A term is one uninterrupted leadership. It begins with a Txn that proves it: the
// leader's key is absent, or its owner's session is gone, or the leader handed it
// over. The key's mod revision is the term's token, which rises strictly from term
// to term. Fn's context ends inside the session's trust window, before the server
// can make somebody else leader as long as clocks behave; and whatever the clocks
// do, a write through [Term.Commit] is refused once another leads.
//
// [Elector.Run] waits for fn before it gives the claim up. Where fn does not stop,
// the lease is left to run out instead, and the logger and [Hooks] say so: giving
// up early would start the next leader beside it.
//
// # What is not promised
//
// That two leaders never run at once: a paused process runs on until it looks at its
// context. Give side effects the term's fence or token. Nor strict order after a
// leader's death: it is best effort.
package election
