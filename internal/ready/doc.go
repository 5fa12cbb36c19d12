// Package ready tells what may be claimed next. Its [Index] holds what a process knows of a
// queue from its mirrors: the jobs in order, who lives, who works, and what the queue's
// config says. It is a hint: the Txn decides. [Index.Pick] chooses for a worker,
// [Index.Assignments] for a dispatcher. It sends nothing and links no etcd server.
package ready
