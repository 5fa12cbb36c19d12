// Package queue is the machinery of a handle on one queue: the reads that find a job wherever
// it is, the mirrors that feed the index, the leases that done jobs hang on, the changes of a
// job or of the config on somebody's behalf, and the end of all that. Packages workqueue and
// admin are what users see of it.
package queue
