// Package simulate races three ways of sharing jobs among agents, on a real
// embedded etcd with the real library: no coordination (naive), atomic claims with
// leases (claim), and one orchestrator (dispatch).
//
// # A run
//
// [Run] starts one etcd, and on it many trials side by side, each under a root of
// its own. A trial is one mode in one scenario. What happens in it is planned by a
// pure function of the settings (plan.go): the jobs' lengths, the gaps of the naive
// mode, the agents' starts and the faults. Trial k has the same lengths in every
// mode.
//
// # Agents
//
// An agent is a few goroutines with an etcd client, a proxy and a session of its
// own (node.go). A crash cuts its connections for good and revokes nothing. A freeze
// holds its bytes, its clock and its handler. A partition holds its bytes only.
//
// # Counting
//
// Nothing is counted by assumption: one watch of the trial's root (witness.go) feeds
// an account of who owned which job when (truth.go), in the order of etcd's
// revisions. A late result is one that was accepted although its claim was no longer
// the job's latest. What no key shows is told by the agents: which runs reached
// their end, which results were refused, which claim races were lost.
//
// The naive mode writes without a fence. It exists only here.
package simulate
