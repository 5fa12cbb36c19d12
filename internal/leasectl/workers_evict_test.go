package leasectl

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

// A session whose key hangs on no lease is ended all the same, and its jobs are open again.
func TestEvictEndsASessionWithoutALease(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, startEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
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

// What is counted as released is what is open again, whoever opened it: the process of the session is told, and may be
// faster. What others have is counted apart.
func TestEvictCountsWhatIsOpenAgain(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, startEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	q, keys := r.open("mail"), r.queue("mail")
	claimedBy := func(sid string) string {
		return `,"attempt":1,"owner":"` + sid + `","owner_rev":"5","claimed_at":"2020-01-01T00:00:00Z"`
	}
	const sid = "evicted.0000000000000001"
	e := eviction{item: evictItem{Session: sid}, by: workqueue.By{Actor: "test"}, a: &app{settings: settings{dialTimeout: time.Minute}}}
	for _, id := range []string{"held", "given back", "taken", "done"} {
		r.put(keys.Job(id), record(id, claimedBy(sid)))
	}
	r.put(keys.Job("not its own"), record("not its own", claimedBy("other.0000000000000002")))
	if err := e.list(t.Context(), q); err != nil || len(e.owned) != 4 {
		t.Fatalf("%v, %v", e.owned, err)
	}
	r.put(keys.Job("given back"), record("given back", `,"attempt":1`))
	r.put(keys.Job("taken"), record("taken", claimedBy("other.0000000000000002")))
	r.delete(keys.Job("done"))
	r.put(keys.Done("done"), record("done", `,"outcome":"completed","finished_at":"2020-01-01T00:00:00Z"`))
	if err := e.release(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	slices.Sort(e.item.Released)
	if want := []string{"mail/given%20back", "mail/held"}; !slices.Equal(e.item.Released, want) || e.item.Taken != 2 {
		t.Errorf("released %q, %d taken; want %q and 2", e.item.Released, e.item.Taken, want)
	}
}
