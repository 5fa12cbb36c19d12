// Package leasekit is the root of an etcd-native coordination toolkit: jobs
// that are worked by exactly one owner at a time, locks, leadership, and permits
// (counted permits).
//
// All four are one thing underneath. A claim is an etcd key whose record names
// an owner session. The key's mod revision at the moment of the claim is its
// fencing token. The owner is alive exactly as long as its session key exists,
// and only an etcd lease decides that. Whoever writes a result proves, inside
// the same transaction, that the token is still current.
//
// This package holds no code. Import the package that you need:
//
//   - [github.com/leasekit/leasekit/coord]: sessions, fences, commits, locks
//     and semaphores; everything below stands on it.
//   - [github.com/leasekit/leasekit/election]: leadership in terms, each with a
//     token.
//   - [github.com/leasekit/leasekit/workqueue]: durable jobs, and the workers
//     that claim them.
//   - [github.com/leasekit/leasekit/integration/etcdtest]: an embedded etcd
//     with faults to order, for the tests of programs that embed the toolkit.
//
// The command in cmd/leasectl starts, inspects and repairs all of it from a
// terminal. ARCHITECTURE.md tells how it works and what it promises.
package leasekit
