package workers

import (
	"slices"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/workqueue"
)

// What is counted as released is what is open again, whoever opened it: the process of the session is told, and may be
// faster. What others have is counted apart.
func TestEvictCountsWhatIsOpenAgain(t *testing.T) {
	client := etcdtest.NewClient(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	q, err := workqueue.Open(t.Context(), client, workqueue.Config{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	root, err := keyspace.New("")
	if err != nil {
		t.Fatal(err)
	}
	keys := root.Queue("mail")
	put := func(key, id, more string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, `{"w":"8888888888888888","v":1,"born":"b","id":"`+id+`","enqueued_at":"2020-01-01T00:00:00Z"`+more+`}`); err != nil {
			t.Fatal(err)
		}
	}
	claimedBy := func(sid string) string {
		return `,"attempt":1,"owner":"` + sid + `","owner_rev":"5","claimed_at":"2020-01-01T00:00:00Z"`
	}
	const sid = "evicted.0000000000000001"
	e := eviction{item: evictItem{Session: sid}, by: workqueue.By{Actor: "test"}, a: &cli.App{Settings: connect.Settings{DialTimeout: time.Minute}}}
	for _, id := range []string{"held", "given back", "taken", "done"} {
		put(keys.Job(id), id, claimedBy(sid))
	}
	put(keys.Job("not its own"), "not its own", claimedBy("other.0000000000000002"))
	if err := e.list(t.Context(), q); err != nil || len(e.owned) != 4 {
		t.Fatalf("%v, %v", e.owned, err)
	}
	put(keys.Job("given back"), "given back", `,"attempt":1`)
	put(keys.Job("taken"), "taken", claimedBy("other.0000000000000002"))
	if _, err := client.Delete(t.Context(), keys.Job("done")); err != nil {
		t.Fatal(err)
	}
	put(keys.Done("done"), "done", `,"outcome":"completed","finished_at":"2020-01-01T00:00:00Z"`)
	if err := e.release(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	slices.Sort(e.item.Released)
	if want := []string{"mail/given%20back", "mail/held"}; !slices.Equal(e.item.Released, want) || e.item.Taken != 2 {
		t.Errorf("released %q, %d taken; want %q and 2", e.item.Released, e.item.Taken, want)
	}
}
