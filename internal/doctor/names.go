package doctor

import "github.com/leasekit/leasekit/internal/escape"

// ref names a job of the queue as leasectl takes it: QUEUE/ID.
func (q *queueLook) ref(id string) string { return escape.Job(q.name, id) }

// named is a name in a sentence, or behind its noun and a slash: one word, so that it says nothing else there.
func named(name string) string { return escape.Name(name, "") }
