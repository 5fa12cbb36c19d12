// Package admin is what operators do with a queue, and what they see of one: repairs of
// jobs and of a queue's config, counts, export and import, the evidence of refused writes.
// Command leasectl stands on it, and tools of your own can. Programs that enqueue and work
// jobs need only package workqueue.
//
// Every function takes the context first and the queue second, blocks until etcd has
// answered or ctx ends, and is safe for concurrent use. What it changes it guards by what
// it, or the caller through [workqueue.By].Revision, has seen.
package admin
