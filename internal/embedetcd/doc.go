// Package embedetcd runs real etcd servers inside this process: one member
// for `leasectl dev`, demo and bench, one or three for tests.
//
// # States of a member
//
//	stopped --Restart--> serving --Stop, Kill--> stopped
//
// A member that is cut (Cut) still serves its clients but exchanges nothing
// with its peers until it is mended; being cut survives a restart. Stop hands
// leadership over first, Kill does not: its peers find out by election
// timeout, as they would after a crash. Cluster.Close ends every state.
//
// # What differs from a plain etcd
//
//   - Listeners are on loopback only, unless Config.ClientAddr says otherwise.
//   - History older than Config.CompactAfter is compacted, because a queue
//     rewrites its keys all the time and uncompacted history would fill the
//     storage quota within minutes. Any production etcd under such a load
//     needs the same setting.
//   - Stopping does not wait for open watch streams: etcd's own shutdown
//     gives them seconds, here they get drainGrace.
//
// Everything else, fsync included, is etcd's default, so numbers measured
// here mean something.
//
// # Goroutines after Close
//
// Close joins everything that this package and etcd let it join. In a cluster
// of three, a peer connection can stay behind for a few seconds: etcd's peer
// listener renews the read deadline (rafthttp.ConnReadTimeout, 5 s) just as
// net/http tries to end the read, which then lasts that long. A check for
// leaked goroutines must be that patient; etcdtest.Main is.
//
// # What it is not
//
// Kill is as abrupt as a process can be to itself: it neither drains nor
// hands over, but files are closed properly. It does not prove anything about
// torn disk writes.
package embedetcd
