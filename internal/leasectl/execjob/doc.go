// Package execjob runs one job as a child process: the exec contract of leasectl.
//
// What the child gets:
//   - the payload, byte for byte, on stdin;
//   - LEASECTL_JOB_ID, _QUEUE, _KIND, _ATTEMPT, _TOKEN, _SESSION, _IDEMPOTENCY_KEY, _RESULT_FILE (a path that does not
//     exist yet), _DEADLINE (RFC 3339) when the attempt has one, _CHECKPOINT_FILE when an earlier attempt left a
//     checkpoint, LEASECTL_ENDPOINTS and LEASECTL_ROOT, and TRACEPARENT, TRACESTATE, BAGGAGE when the job carries them;
//   - the rest of leasectl's environment, without passwords unless it is asked for them;
//   - a process group of its own, and a guard as its parent.
//
// What its end means:
//
//	exit 0         complete; the result is what stands in _RESULT_FILE, else the last 64 KiB of stdout
//	exit 75        retry soon (EX_TEMPFAIL)
//	exit 64 65 78  dead at once (EX_USAGE, EX_DATAERR, EX_CONFIG)
//	any other      retry with backoff
//	a signal       retry with backoff; the error names the signal
//
// When the context ends, the process group gets SIGTERM, and SIGKILL after the grace. Whatever is left of the job when
// its leader has ended and its output is drained is killed: nothing works on without a claim.
//
// # The guard
//
// The guard is this program once more, in a process of its own. It starts the child, hears from leasectl through a pipe
// how long the claim can be relied on, and ends the child when it must:
//   - at once, when the pipe closes, which is when leasectl has ended, however it did;
//   - as at the end of the context, when the time that it last heard of is over, as when leasectl is stopped.
//
// On Linux it is the subreaper of all that the child starts. So a job is its process tree: what has left the process
// group or its session is killed too, and a helper that must outlive the job has to be started by something else, such
// as a service manager. When the guard itself is killed, the kernel kills the child, and leasectl kills its group. On
// other Unix systems a job is its process group. Elsewhere there is no guard.
//
// Out of the guard's reach are processes of another user (sudo), those that another daemon started (docker run), those
// that the kernel cannot interrupt, and on the death of the guard and leasectl in one moment all but the child itself.
//
// The package knows nothing of queues or etcd; it never retries and never logs.
package execjob
