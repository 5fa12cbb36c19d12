package execjob

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is what one attempt hands to its child. The zero value of an optional field leaves its variable out.
type Job struct {
	ID             string
	Queue          string
	Kind           string
	Attempt        int       // ordinal, from 1
	Token          string    // fencing token, decimal
	Session        string    // the owner's session ID
	IdempotencyKey string    // the same for every attempt of this job
	Deadline       time.Time // optional: when the attempt's context ends

	// Reliable is how long the claim can be relied on from now; nil: as long as the context.
	Reliable func() time.Duration

	Payload    []byte // the child's stdin
	Checkpoint []byte // optional: nil means that no attempt left one

	// Trace is the W3C context that the job carries: the keys traceparent, tracestate and baggage are handed on,
	// others are not, and values that Unfit names neither.
	Trace map[string]string
}

// jobVars are the variables of one job. An outer job's values must not shine through when leasectl work runs inside
// leasectl work, so these are removed from what the child inherits.
var jobVars = []string{
	"LEASECTL_JOB_ID", "LEASECTL_QUEUE", "LEASECTL_KIND", "LEASECTL_ATTEMPT", "LEASECTL_TOKEN", "LEASECTL_DEADLINE",
	"LEASECTL_SESSION", "LEASECTL_RESULT_FILE", "LEASECTL_CHECKPOINT_FILE", "LEASECTL_IDEMPOTENCY_KEY",
	"LEASECTL_ENDPOINTS", "LEASECTL_ROOT", "LEASECTL_CONTEXT", "TRACEPARENT", "TRACESTATE", "BAGGAGE",
}

// secretVars hold a password. userVars may: "name:password"; so may urlVars, before an @.
var (
	secretVars = []string{"LEASECTL_PASSWORD", "ETCDCTL_PASSWORD"}
	userVars   = []string{"LEASECTL_USER", "ETCDCTL_USER"}
	urlVars    = []string{"LEASECTL_ENDPOINTS", "ETCDCTL_ENDPOINTS"}
)

// withoutCredentials returns env without passwords: what runs under a claim need not be who claims, and what it prints
// is kept where others read it. The name of the user stays.
func withoutCredentials(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(secretVars, name), slices.Contains(urlVars, name) && strings.Contains(value, "@"):
			continue
		case slices.Contains(userVars, name):
			user, _, _ := strings.Cut(value, ":")
			kv = name + "=" + user
		}
		kept = append(kept, kv)
	}
	return kept
}

// inherited is what a command gets of this process's environment.
func inherited(credentials bool) []string {
	if credentials {
		return os.Environ()
	}
	return withoutCredentials(os.Environ())
}

// environ returns the child's environment: base without anything of an outer job, then this job's variables.
func (r *Runner) environ(base []string, job Job, resultFile, checkpointFile string) []string {
	env := make([]string, 0, len(base)+len(jobVars))
	for _, kv := range base {
		if !isJobVar(kv) {
			env = append(env, kv)
		}
	}
	add := func(name, value string) { env = append(env, name+"="+value) }
	addIf := func(name, value string) {
		if value != "" {
			add(name, value)
		}
	}
	add("LEASECTL_JOB_ID", job.ID)
	add("LEASECTL_QUEUE", job.Queue)
	add("LEASECTL_KIND", job.Kind)
	add("LEASECTL_ATTEMPT", strconv.Itoa(job.Attempt))
	add("LEASECTL_TOKEN", job.Token)
	add("LEASECTL_SESSION", job.Session)
	add("LEASECTL_IDEMPOTENCY_KEY", job.IdempotencyKey)
	add("LEASECTL_RESULT_FILE", resultFile)
	if !job.Deadline.IsZero() {
		add("LEASECTL_DEADLINE", job.Deadline.UTC().Format(time.RFC3339Nano))
	}
	addIf("LEASECTL_CHECKPOINT_FILE", checkpointFile)
	addIf("LEASECTL_ENDPOINTS", strings.Join(r.Endpoints, ","))
	addIf("LEASECTL_ROOT", r.Root)
	addIf("LEASECTL_CONTEXT", r.Context)
	for _, key := range traceKeys {
		if value := job.Trace[key]; fits(value) {
			addIf(strings.ToUpper(key), value)
		}
	}
	return env
}

// traceKeys are those of a job's trace that its child gets.
var traceKeys = []string{"traceparent", "tracestate", "baggage"}

// maxValue is the longest value that is handed on: names have 200 bytes at most, a trace's baggage 8 KiB by its standard,
// and Linux takes 128 KiB in one variable.
const maxValue = 8 << 10

// fits tells whether an environment can carry a value: one with a NUL byte, or a very long one, would keep the child from
// being started.
func fits(value string) bool { return len(value) <= maxValue && !strings.Contains(value, "\x00") }

// startable is nil, or why no child can ever be told what it works on.
func (j Job) startable() error {
	for _, v := range []struct{ what, value string }{
		{"id", j.ID}, {"queue", j.Queue}, {"kind", j.Kind}, {"owner", j.Session}, {"idempotency key", j.IdempotencyKey},
	} {
		switch {
		case fits(v.value):
		case len(v.value) > maxValue:
			return fmt.Errorf("its %s has %d bytes: the environment of a command is given %d at most", v.what, len(v.value), maxValue)
		default:
			return fmt.Errorf("its %s has a NUL byte, which no environment can carry", v.what)
		}
	}
	return nil
}

// Unfit returns the keys of the trace whose values no environment can carry: they are not handed on, and the child runs
// without them.
func (j Job) Unfit() (keys []string) {
	for _, key := range traceKeys {
		if !fits(j.Trace[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

func isJobVar(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return slices.Contains(jobVars, name)
}
