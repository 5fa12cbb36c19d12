package line

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// lockHunt is a compare that is taken out of a builder's Txns, and the world in which
// the explorer must find out. Without names others that go with it: a guard's head
// nonce is no help where only its revision is hunted.
type lockHunt struct {
	builder, compares, without string
	world                      lockSet
}

var lockHunts = []lockHunt{
	{"take", "slot mod =,me create =,owner create !=", "", lockTwo},
	{"take", "entry mod =", "", permitNewcomers},
	{"take", "slot value <", "", lockBack},
	{"take", "slot value >", "", lockBack.shrinking()},
	{"enqueue", "slot mod =,me create =", "", lockNewcomers},
	{"enqueue", "other slot mod =", "", permitNewcomers},
	{"release", "slot mod =", "slot value", lockSeized},
	{"release", "slot value <", "", lockBack},
	{"release", "slot value >", "", lockBack.shrinking()},
	{"release", "heir create =,heir entry mod =", "", lockHeirs},
	{"release", "waiters create =", "", lockNewcomers},
	{"transfer", "slot mod =", "slot value", lockHanded},
	{"transfer", "slot value <", "", lockBackWaiting},
	{"transfer", "slot value >", "", lockBackWaiting.shrinking()},
	{"transfer", "heir create =,heir entry mod =", "", lockHeirs},
	{"withdraw", "entry mod =", "", lockHeirs},
	{"force", "slot mod =", "slot value", lockSeized},
	{"force", "slot value <", "", lockBackForced},
	{"force", "slot value >", "", lockBackForced.shrinking()},
	{"force", "heir create =,heir entry mod =", "", lockHeirs},
	{"commit", "slot mod =", "slot value", lockSeized},
	{"commit", "slot value <", "", lockBack},
	{"commit", "slot value >", "", lockBack.shrinking()},
}

// lockUnhunted are the compares that no interleaving needs, and why.
// TestEveryCompareOfEveryClaimTxnClosesARace has a world for each.
var lockUnhunted = map[string]string{
	"enqueue entry create =": "a process numbers its entries and a session is never two processes', so that no entry's name is used twice; a repeat is kept out by the lane",
}

// Every compare of every Txn of a claim is there for a reason that the explorer finds
// by itself.
func TestExploreMissesEveryCompareOfClaims(t *testing.T) {
	left := map[string]bool{}
	for _, tc := range claimCases {
		for _, compare := range tc.closes {
			left[tc.builder+" "+compare] = lockUnhunted[tc.builder+" "+compare] == ""
		}
	}
	for _, h := range lockHunts {
		for compare := range strings.SplitSeq(h.compares, ",") {
			left[h.builder+" "+compare] = false
			t.Run(h.builder+"/"+strings.ReplaceAll(compare, " ", "-"), func(t *testing.T) { h.run(t, compare) })
		}
	}
	for compare, open := range left {
		if open {
			t.Errorf("%s: no hunt shows what it is for, and nobody wrote down why not", compare)
		}
	}
}

func (h lockHunt) run(t *testing.T, compare string) {
	hunted := func(names ...string) func(builder, c string) bool {
		return func(builder, c string) bool {
			return builder == h.builder && slices.ContainsFunc(names, func(name string) bool { return name != "" && strings.HasPrefix(c, name) })
		}
	}
	const limit = 60_000
	if h.without != "" {
		if r := h.world.explore(hunted(h.without), limit); r.Err != nil || !r.Complete {
			t.Fatalf("%s is missed although it should be no help: %v, %v", h.without, r, r.Err)
		}
	}
	r := h.world.explore(hunted(compare, h.without), limit)
	if !errors.Is(r.Err, errUntrue) {
		t.Fatalf("nobody misses it in %q: %v, %v", h.world.name, r, r.Err)
	}
	t.Logf("%v:\n%s", r, h.world.print(r))
}
