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
