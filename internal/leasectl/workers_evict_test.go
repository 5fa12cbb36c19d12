package leasectl

import (
	"strconv"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// A session whose key hangs on no lease is ended all the same, and its jobs are open again.
func TestEvictEndsASessionWithoutALease(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	const sid = "w.0000000000000001"
	created := r.put(r.keys.Session(sid), `{"w":"8888888888888888"}`)
	r.put(r.keys.Session(sid), `{"w":"8888888888888889"}`) // and again: created and written differ
	r.put(r.queue("mail").Job("x"), record("x", `,"attempt":1,"owner":"`+sid+`","owner_rev":"`+strconv.FormatInt(created, 10)+`","claimed_at":"2020-01-01T00:00:00Z"`))
	out, errOut, code := r.leasectl("workers", "evict", sid, "--yes", "--reason", "hangs")
	if code != 0 || !strings.Contains(out, "evicted (1 job released)") || !strings.Contains(errOut, ", no lease, revision ") {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	if r.exists(r.keys.Session(sid)) {
		t.Error("the session's key is still there")
	}
	if j := r.job("mail", "x"); j.State != workqueue.StateReady || j.Attempts[0].Reason != "hangs" {
		t.Errorf("the job is %s: %+v", j.State, j.Attempts)
	}
}
