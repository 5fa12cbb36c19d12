package execjob_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// A trace value that no environment can carry keeps no job from being worked.
func TestTraceWithANULByteIsLeftOut(t *testing.T) {
	job := execjob.Job{Trace: map[string]string{"traceparent": "00-ab-cd-01", "tracestate": "a\x00b", "baggage": "\x00", "other": "\x00"}}
	if got, want := job.Unfit(), []string{"tracestate", "baggage"}; !slices.Equal(got, want) {
		t.Errorf("unfit are %q, want %q", got, want)
	}
	out := sh(`env | grep -E '^(TRACE|BAGGAGE)'`).Run(t.Context(), job)
	if got := strings.TrimSpace(string(out.Result)); out.Err != nil || got != "TRACEPARENT=00-ab-cd-01" {
		t.Errorf("error %v, environment %q", out.Err, got)
	}
}

// A long value of a trace is left out too, and whatever else cannot be handed on ends the job at its first attempt.
func TestWhatNoEnvironmentCarries(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	out := sh("echo ${BAGGAGE-unset}").Run(t.Context(), execjob.Job{Trace: map[string]string{"baggage": long}})
	if got := strings.TrimSpace(string(out.Result)); out.Err != nil || got != "unset" {
		t.Errorf("a long baggage: %v, %q", out.Err, got)
	}
	for _, value := range []string{"a\x00b", long} {
		for what, job := range map[string]execjob.Job{
			"id": {ID: value}, "queue": {Queue: value}, "kind": {Kind: value}, "owner": {Session: value}, "idempotency key": {IdempotencyKey: value},
		} {
			out := sh("true").Run(t.Context(), job)
			if out.Verdict != execjob.Dead || out.Err == nil || !strings.Contains(out.Err.Error(), "its "+what+" has ") {
				t.Errorf("%s of %d bytes: %v, %v", what, len(value), out.Verdict, out.Err)
			}
		}
	}
}
