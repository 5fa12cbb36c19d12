// Package claims keeps a session's book of claims and closes them.
//
// Every claim that a process makes for a session stands in the [Book] from before its
// Txn is sent until etcd says that it is over: a job, a lock, a permit, a leadership, a
// worker's registration. At any time there is one who must end it: see state.go. A
// [Closer] ends one claim, by whichever [Way] out is asked for. It is the only loop that
// does: complete, fail, release, transfer, resign and leave differ in their Txns alone.
//
// The package knows neither etcd nor keys.
package claims
