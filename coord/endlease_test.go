package coord_test

import (
	"errors"
	"testing"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/leftover"
)

// Somebody who was shown a session ends that one, and no other that came after it.
func TestEndLease(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	s := open(t, client, coord.SessionConfig{Root: etcdtest.Root(t)})
	store := inside.Of(s).Store()
	key := store.Keys().Session(s.ID())
	for name, tc := range map[string]struct {
		key     string
		created int64
		want    error
	}{
		"another incarnation": {key, inside.Of(s).CreateRevision() + 1, coord.ErrRefused},
		"nobody":              {store.Keys().Session("nobody.0000000000000001"), inside.Of(s).CreateRevision(), coord.ErrRefused},
		"a job":               {store.Keys().Queue("q").Job("x"), inside.Of(s).CreateRevision(), coord.ErrInvalid},
		"a foreign key":       {"/elsewhere", 1, coord.ErrInvalid},
	} {
		if _, err := leftover.EndLease(within(t), store, tc.key, tc.created); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	wantAlive(t, s)
	if lease, err := leftover.EndLease(within(t), store, key, inside.Of(s).CreateRevision()); err != nil || lease != s.Lease() {
		t.Fatalf("got %x, %v, want %x", lease, err, s.Lease())
	}
	<-s.Done()
	if err := s.Err(); !errors.Is(err, coord.ErrSessionLost) {
		t.Errorf("the owner is told %v", err)
	}
	if _, err := leftover.EndLease(within(t), store, key, inside.Of(s).CreateRevision()); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("again: got %v", err)
	}
	resp, err := client.Put(within(t), key, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leftover.EndLease(within(t), store, key, resp.Header.Revision); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("without a lease: got %v", err)
	}
}
