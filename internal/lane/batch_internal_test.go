package lane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/faultkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// unitOf builds a unit from words: "w:k" puts k, "d:k" deletes it, "c:k"
// compares it, "r:k" reads it in Then, "e:k" reads it in Else, "D:k" deletes the
// prefix k, "n:k" puts k in a nested Txn, "m:k" compares it there; "o" keeps its order.
func unitOf(words string) *unit {
	t := etcdkv.Txn{Origin: words}
	for word := range strings.FieldsSeq(words) {
		kind, k, _ := strings.Cut(word, ":")
		switch kind {
		case "w":
			t.Then = append(t.Then, clientv3.OpPut(k, ""))
		case "d":
			t.Then = append(t.Then, clientv3.OpDelete(k))
		case "c":
			t.If = append(t.If, clientv3.Compare(clientv3.ModRevision(k), "=", 1))
		case "r":
			t.Then = append(t.Then, clientv3.OpGet(k))
		case "e":
			t.Else = append(t.Else, clientv3.OpGet(k))
		case "D":
			t.Then = append(t.Then, clientv3.OpDelete(k, clientv3.WithPrefix()))
		case "n":
			t.Then = append(t.Then, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(k, "")}, nil))
		case "m":
			t.Then = append(t.Then, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(k), "=", 1)}, nil, nil))
		case "o":
			t.InOrder = true
		}
	}
	return newUnit(t)
}

func never(string) bool { return false }

func originsOf(units []*unit) []string {
	names := []string{}
	for _, u := range units {
		names = append(names, u.txn.Origin)
	}
	return names
}

// composeAll composes until nothing is left and returns the origins per batch.
func composeAll(queue []*unit, alone func(string) bool) [][]string {
	var (
		b       batch
		batches [][]string
	)
	for len(queue) > 0 {
		var taken []*unit
		taken, queue = b.compose(queue, alone, &openKeys{}, nil)
		batches = append(batches, originsOf(taken))
	}
	return batches
}

func TestComposeKeepsUnitsThatMeetApart(t *testing.T) {
	tests := []struct {
		name    string
		queue   []string
		batches [][]string
	}{
		{"strangers", []string{"w:a", "w:b", "d:c"}, [][]string{{"w:a", "w:b", "d:c"}}},
		{"write meets write", []string{"w:a", "w:a"}, [][]string{{"w:a"}, {"w:a"}}},
		{"write meets delete", []string{"w:a", "d:a"}, [][]string{{"w:a"}, {"d:a"}}},
		{"write meets compare", []string{"w:a", "c:a w:b"}, [][]string{{"w:a"}, {"c:a w:b"}}},
		{"compare meets write", []string{"c:a w:b", "w:a"}, [][]string{{"c:a w:b"}, {"w:a"}}},
		{"write meets read", []string{"w:a", "r:a w:b"}, [][]string{{"w:a"}, {"r:a w:b"}}},
		{"write meets read of Else", []string{"w:a", "w:b e:a"}, [][]string{{"w:a"}, {"w:b e:a"}}},
		{"write meets nested write", []string{"w:a", "n:a"}, [][]string{{"w:a"}, {"n:a"}}},
		{"nested write meets compare", []string{"n:a", "c:a w:b"}, [][]string{{"n:a"}, {"c:a w:b"}}},
		{"write meets nested compare", []string{"w:a", "m:a"}, [][]string{{"w:a"}, {"m:a"}}},
		{"shared compares and reads", []string{"c:s w:a", "c:s w:b", "r:s w:c e:s"}, [][]string{{"c:s w:a", "c:s w:b", "r:s w:c e:s"}}},
		{"others overtake", []string{"w:a", "c:a w:b", "w:c"}, [][]string{{"w:a", "w:c"}, {"c:a w:b"}}},
		{
			"nobody overtakes one that it meets",
			[]string{"w:a", "c:a w:b", "c:b w:c", "w:b", "w:d"},
			[][]string{{"w:a", "w:d"}, {"c:a w:b"}, {"c:b w:c"}, {"w:b"}},
		},
		{"nobody overtakes a range", []string{"w:a", "D:p", "w:p1", "w:z"}, [][]string{{"w:a"}, {"D:p"}, {"w:p1", "w:z"}}},
		{"order is kept behind one that waits", []string{"w:a", "o w:a", "o w:b", "w:c"}, [][]string{{"w:a", "w:c"}, {"o w:a", "o w:b"}}},
		{"a range first", []string{"D:p", "w:a", "w:b"}, [][]string{{"D:p"}, {"w:a", "w:b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var queue []*unit
			for _, words := range tt.queue {
				queue = append(queue, unitOf(words))
			}
			got := composeAll(queue, never)
			if fmt.Sprint(got) != fmt.Sprint(tt.batches) {
				t.Errorf("batches: got %q, want %q", got, tt.batches)
			}
		})
	}
}

func TestComposeSendsARefusedOriginAlone(t *testing.T) {
	queue := []*unit{unitOf("w:a"), unitOf("w:bad"), unitOf("w:b"), unitOf("w:c")}
	got := composeAll(queue, func(origin string) bool { return origin == "w:bad" })
	want := [][]string{{"w:a", "w:b", "w:c"}, {"w:bad"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("batches: got %q, want %q", got, want)
	}
	// Later it travels with the others again.
	u := unitOf("w:bad")
	got = composeAll([]*unit{u, unitOf("w:a")}, never)
	if len(got) != 1 {
		t.Errorf("batches after the quarantine: got %q, want one", got)
	}
}

func TestComposeDropsWithdrawnUnits(t *testing.T) {
	gone := unitOf("w:a")
	gone.withdraw()
	last := unitOf("w:z")
	last.withdraw()
	got := composeAll([]*unit{gone, unitOf("w:a"), unitOf("w:b"), last}, never)
	if want := "[[w:a w:b]]"; fmt.Sprint(got) != want {
		t.Errorf("batches: got %v, want %v", got, want)
	}
	var b batch
	taken, left := b.compose([]*unit{gone, last}, never, &openKeys{}, nil)
	if len(taken)+len(left) != 0 {
		t.Errorf("of withdrawn units only: got %d taken and %d left, want none", len(taken), len(left))
	}
}

func TestComposeLimits(t *testing.T) {
	small := func(n int) *unit { return unitOf(fmt.Sprintf("w:k%d", n)) }
	deep := func(n, ops int) *unit {
		var words []string
		for i := range ops {
			words = append(words, fmt.Sprintf("w:d%d-%d", n, i))
		}
		return unitOf(strings.Join(words, " "))
	}
	large := func(n, bytes int) *unit {
		return newUnit(etcdkv.Txn{Then: []clientv3.Op{clientv3.OpPut(fmt.Sprintf("l%d", n), strings.Repeat("x", bytes))}})
	}
	many := func(n int, make func(int) *unit) (units []*unit) {
		for i := range n {
			units = append(units, make(i))
		}
		return units
	}
	tests := []struct {
		name  string
		queue []*unit
		want  []int
	}{
		{"112 units", many(250, small), []int{112, 112, 26}},
		{"1 MiB", many(5, func(n int) *unit { return large(n, 400<<10) }), []int{2, 2, 1}},
		// 1 for the lane, n for the units, 80 for their own ops: n <= 47.
		{"128 a level", many(60, func(n int) *unit { return deep(n, 80) }), []int{47, 13}},
		// The deep one needs 100, which leaves room for 27 units in all.
		{"one deep unit", append(many(40, small), deep(0, 100)), []int{40, 1}},
		{"one deep unit first", slices.Concat([]*unit{deep(0, 100)}, many(40, small)), []int{27, 14}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, b := range composeAll(tt.queue, never) {
				got = append(got, len(b))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("sizes: got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestComposeLooksAheadButNotForEver(t *testing.T) {
	var queue []*unit
	for range 2 * maxPassed {
		queue = append(queue, unitOf("w:hot"))
	}
	queue = append(queue, unitOf("w:cold"))
	var b batch
	taken, left := b.compose(queue, never, &openKeys{}, nil)
	if got := originsOf(taken); len(got) != 1 || got[0] != "w:hot" {
		t.Errorf("taken: got %v, want the first only", got)
	}
	if len(left) != 2*maxPassed || left[len(left)-1].txn.Origin != "w:cold" {
		t.Errorf("left: got %d, want %d in their order", len(left), 2*maxPassed)
	}
}

// Every batch that compose makes is one that etcd takes.
func TestComposedBatchesFitEtcd(t *testing.T) {
	w := faultkv.NewWorld(t)
	var queue []*unit
	for i := range 130 {
		t := etcdkv.Txn{}
		for j := range i % 60 {
			t.Then = append(t.Then, clientv3.OpPut(fmt.Sprintf("%s%d-%d", w.Data, i, j), ""))
		}
		if i%7 == 0 { // nested, no evidence of its own
			t = etcdkv.Txn{Then: []clientv3.Op{clientv3.OpTxn(nil, t.Then, nil)}}
		}
		queue = append(queue, newUnit(t))
	}
	c := committer(t, w)
	l, err := c.openLane()
	if err != nil {
		t.Fatal(err)
	}
	var b batch
	for len(queue) > 0 {
		var units []*unit
		units, queue = b.compose(queue, never, &openKeys{}, nil)
		resp, err := w.Backend.Txn(faultkv.Within(t), l.wrap(units, keyspace.NewNonce(), false))
		if err != nil || !resp.Succeeded {
			t.Fatalf("a batch of %d: %v", len(units), err)
		}
		l.last = resp.Header.Revision
	}
}
