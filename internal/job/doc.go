// Package job is the record of a job and what can become of it: the codec, the transitions,
// and the Txn of each transition as a plain value with every compare that it needs. It is
// pure: it knows no etcd, and no clock. Package workqueue sends what it builds.
//
// Everything that package job writes is described by one struct: [Record] for a job,
// [Note] for its progress, [QueueConfig] for a queue, [WorkerRecord] for a worker.
package job
