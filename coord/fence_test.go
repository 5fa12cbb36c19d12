package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

const (
	lowNonce  = "0123456789abcdef"
	midNonce  = "5123456789abcdef"
	highNonce = "a123456789abcdef"
)

func recordOf(nonce string) string { return `{"w":"` + nonce + `","kind":"test"}` }

func in(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func putRecord(t *testing.T, cl *clientv3.Client, key, nonce string) coord.Token {
	t.Helper()
	resp, err := cl.Put(in(t), key, recordOf(nonce))
	if err != nil {
		t.Fatal(err)
	}
	return coord.Token(resp.Header.Revision)
}

// notCurrent are the ways in which a claim can be over although one compare of
// its fence is all that tells: which one is the index into Cmps.
func notCurrent(t *testing.T, cl *clientv3.Client, key string) []coord.Fence {
	t.Helper()
	first := putRecord(t, cl, key, midNonce)
	now := putRecord(t, cl, key, midNonce)
	return []coord.Fence{
		{Key: key, Token: first, Nonce: midNonce},
		// A restored cluster reached the same revision for another owner.
		{Key: key, Token: now, Nonce: highNonce},
		{Key: key, Token: now, Nonce: lowNonce},
	}
}

// Each compare of a fence is needed: without it, one write of a superseded claim
// goes through.
func TestEachCompareOfAFenceIsNeeded(t *testing.T) {
	cl := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	succeeds := func(cmps []clientv3.Cmp) bool {
		resp, err := cl.Txn(in(t)).If(cmps...).Then(clientv3.OpPut(root+"result", "")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	fences := notCurrent(t, cl, root+"job")
	for i, what := range []string{"the revision", "the nonce's lower bound", "the nonce's upper bound"} {
		cmps := fences[i].Cmps()
		if len(cmps) != 3 {
			t.Fatalf("compares: got %d, want 3", len(cmps))
		}
		if succeeds(cmps) {
			t.Errorf("%s: the write of a superseded claim went through", what)
		}
		for j := range cmps {
			without := slices.Delete(slices.Clone(cmps), j, j+1)
			if got, want := succeeds(without), i == j; got != want {
				t.Errorf("superseded by %s, without compare %d: got applied %v, want %v", what, j, got, want)
			}
		}
	}
	if current := (coord.Fence{Key: root + "job", Token: fences[1].Token, Nonce: midNonce}); !succeeds(current.Cmps()) {
		t.Error("the fence of the current claim was refused")
	}
}

func TestCommitRefusesEachSupersededClaim(t *testing.T) {
	cl := etcdtest.Shared(t).Client(t)
	root := etcdtest.Root(t)
	s, err := coord.OpenSession(in(t), cl, coord.SessionConfig{Root: root + "leasekit/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.WithoutCancel(in(t)))
	fences := notCurrent(t, cl, root+"job")
	for i, f := range fences {
		key := fmt.Sprintf("%sresult-%d", root, i)
		_, err := s.Commit(in(t), []coord.Fence{f}, clientv3.OpPut(key, ""))
		var fenced *coord.FencedError
		if !errors.Is(err, coord.ErrFenced) || !errors.As(err, &fenced) {
			t.Fatalf("fence %d: got %v, want a FencedError", i, err)
		}
		if fenced.Wanted != f.Token || fenced.Current != fences[1].Token || fenced.Key != f.Key {
			t.Errorf("fence %d: got %+v, want wanted %v and current %v", i, fenced, f.Token, fences[1].Token)
		}
		if resp, err := cl.Get(in(t), key); err != nil || len(resp.Kvs) > 0 {
			t.Errorf("fence %d: something was written (%v)", i, err)
		}
	}
	ok := coord.Fence{Key: root + "job", Token: fences[1].Token, Nonce: midNonce}
	// One stale fence among good ones refuses all, and is the one that is named.
	_, err = s.Commit(in(t), []coord.Fence{ok, {Key: root + "gone", Token: 3, Nonce: midNonce}}, clientv3.OpPut(root+"result", ""))
	var fenced *coord.FencedError
	if !errors.As(err, &fenced) || fenced.Key != root+"gone" || !fenced.Current.IsZero() {
		t.Errorf("two fences: got %v, want the one that is gone", err)
	}
	res, err := s.Commit(in(t), []coord.Fence{ok}, clientv3.OpPut(root+"result", "yes"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := cl.Get(in(t), root+"result"); err != nil || resp.Kvs[0].ModRevision != res.Revision {
		t.Errorf("result: got %v %v, want mod revision %d", resp, err, res.Revision)
	}
}

func TestZeroFenceNeverHolds(t *testing.T) {
	cl := etcdtest.Shared(t).Client(t)
	key := etcdtest.Root(t) + "missing"
	resp, err := cl.Txn(in(t)).If(coord.Fence{Key: key}.Cmps()...).Then(clientv3.OpGet(key)).Commit()
	if err != nil || resp.Succeeded {
		t.Errorf("fence without a token on a missing key: got %v %v, want refused", resp, err)
	}
	if !(coord.Fence{}).IsZero() || (coord.Fence{Key: key}).IsZero() {
		t.Error("IsZero: only the zero fence is")
	}
}

// A record that was cut behind its head, by hand or by a copy that broke off, still has the head that its guard compares.
func TestFenceHoldsForWhatWasCutBehindItsHead(t *testing.T) {
	cl := etcdtest.Shared(t).Client(t)
	key := etcdtest.Root(t) + "cut"
	for value, want := range map[string]bool{
		`{"w":"` + midNonce + `"`:        true,
		`{"w":"` + midNonce + `"}`:       true,
		`{"w":"` + midNonce + `",`:       true,
		`{"w":"` + midNonce:              false,
		`{"w":"` + lowNonce + `"`:        false,
		`{"w":"` + highNonce + `"`:       false,
		`{"w":"` + midNonce + "\"\xff":   false,
		`{"w":"` + midNonce[:15] + `0"}`: false,
	} {
		resp, err := cl.Put(in(t), key, value)
		if err != nil {
			t.Fatal(err)
		}
		fence := coord.Fence{Key: key, Token: coord.Token(resp.Header.Revision), Nonce: midNonce}
		got, err := cl.Txn(in(t)).If(fence.Cmps()...).Then(clientv3.OpGet(key)).Commit()
		if err != nil || got.Succeeded != want {
			t.Errorf("%q: the fence holds: %v, %v; want %v", value, got.Succeeded, err, want)
		}
	}
}
