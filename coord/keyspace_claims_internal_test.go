package coord

import "testing"

func TestParseClaimKeys(t *testing.T) {
	k, err := NewKeyspace("/r/")
	if err != nil {
		t.Fatal(err)
	}
	const sid = "node-a%2E1.00000000000000ff"
	for key, want := range map[string]ParsedKey{
		k.lock("a/b").slot(0):               {Kind: "locks", Name: "a/b"},
		k.lock("a/b").entry(sid, 7):         {Kind: "locks", Name: "a/b", Session: sid},
		k.election("e").slot(0):             {Kind: "elections", Name: "e"},
		k.election("e").entry(sid, 0):       {Kind: "elections", Name: "e", Session: sid},
		k.semaphore("gpu", 9).slot(8):       {Kind: "semaphores", Name: "gpu"},
		k.semaphore("gpu", 9).entry(sid, 1): {Kind: "semaphores", Name: "gpu", Session: sid},
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
