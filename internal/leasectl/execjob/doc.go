// Package execjob runs one job as a child process: the exec contract of leasectl.
//
// What the child gets:
//   - the payload, byte for byte, on stdin;
//   - LEASECTL_JOB_ID, _QUEUE, _KIND, _ATTEMPT, _TOKEN, _SESSION, _IDEMPOTENCY_KEY, _RESULT_FILE (a path that does not
//     exist yet), _DEADLINE (RFC 3339) when the attempt has one, _CHECKPOINT_FILE when an earlier attempt left a
//     checkpoint, LEASECTL_ENDPOINTS and LEASECTL_ROOT, and TRACEPARENT, TRACESTATE, BAGGAGE when the job carries them;
//   - a process group of its own. On Linux it is also killed when leasectl dies, whatever killed leasectl.
//
// What its end means:
//
//	exit 0         complete; the result is what stands in _RESULT_FILE, else the last 64 KiB of stdout
//	exit 75        retry soon (EX_TEMPFAIL)
//	exit 64 65 78  dead at once (EX_USAGE, EX_DATAERR, EX_CONFIG)
//	any other      retry with backoff
//	a signal       retry with backoff; the error names the signal
//
// When the context ends, the process group gets SIGTERM, and SIGKILL after the grace. Whatever of the group is left
// when its leader has ended and its output is drained is killed: a job is its process group, and nobody works on
// without a claim. A helper that must outlive the job has to leave the group (setsid).
//
// Known limit: the kill on leasectl's own death reaches the child, not the child's children.
//
// The package knows nothing of queues or etcd; it never retries and never logs.
package execjob
