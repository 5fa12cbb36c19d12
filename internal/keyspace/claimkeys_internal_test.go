package keyspace

import "testing"

func TestParseClaimKeys(t *testing.T) {
	k, err := New("/r/")
	if err != nil {
		t.Fatal(err)
	}
	const sid = "node-a%2E1.00000000000000ff"
	for key, want := range map[string]ParsedKey{
		k.LockKeys("a/b").Slot(0):               {Kind: "locks", Name: "a/b"},
		k.LockKeys("a/b").Entry(sid, 7):         {Kind: "locks", Name: "a/b", Session: sid},
		k.ElectionKeys("e").Slot(0):             {Kind: "elections", Name: "e"},
		k.ElectionKeys("e").Entry(sid, 0):       {Kind: "elections", Name: "e", Session: sid},
		k.SemaphoreKeys("gpu", 9).Slot(8):       {Kind: "semaphores", Name: "gpu"},
		k.SemaphoreKeys("gpu", 9).Entry(sid, 1): {Kind: "semaphores", Name: "gpu", Session: sid},
	} {
		if got, ok := k.Parse(key); !ok || got != want {
			t.Errorf("%s: got %+v %v, want %+v", key, got, ok, want)
		}
	}
	for _, key := range []string{
		"/r/locks/a", "/r/locks/a/leader", "/r/locks/a/holder/x", "/r/locks/a/candidates/" + sid + "-1", "/r/locks//holder",
		"/r/locks/a/waiters/" + sid, "/r/locks/a/waiters/-1", "/r/locks/a/waiters/", "/r/semaphores/s/slots/01", "/r/semaphores/s/holder",
		"/r/foreign/a/holder",
	} {
		if got, ok := k.Parse(key); ok {
			t.Errorf("%s was parsed as %+v", key, got)
		}
	}
}
