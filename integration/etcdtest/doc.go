// Package etcdtest gives tests a real etcd, in this process and without a
// network beyond loopback, and ways to make it misbehave. It is for everybody
// who embeds Leasekit and wants to test with what production runs on.
//
// # One server per test, or one per package
//
// New starts a cluster for one test and stops it in the test's cleanup. With
// one member that takes about 100 ms. Most tests need no cluster of their
// own: give the package a TestMain
//
//	func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }
//
// and tests share one through Shared, each below its own Root. Main also
// fails the package when goroutines are left behind. Tests that stop members,
// or that play with proxies while running in parallel, use New.
//
// # Making it misbehave
//
// Members are stopped, killed, restarted and cut off their peers by the
// methods of Member. With Config.Proxies, every member has a proxy before it:
// clients made by ProxiedClient go through it, and the test decides what
// becomes of their requests and answers. The proxy tells when an answer is
// stuck in it, so no test needs to sleep:
//
//	c := etcdtest.New(t, etcdtest.Config{Proxies: true})
//	c.Proxy(0).PauseAnswers()
//	go complete(c.ProxiedClient(t))          // takes effect, but is not told so
//	c.Proxy(0).WaitAnswers(ctx, 1)
//	c.Proxy(0).Drop()                        // its answer is lost for good
//	c.Proxy(0).Heal()
//
// # Watching what a client sends
//
// Recorder counts the calls of a client, and the messages on its streams, by
// name. Tests use it to show what an idle program costs.
package etcdtest
