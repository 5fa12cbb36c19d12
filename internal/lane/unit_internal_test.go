package lane

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/faultkv"
)

func TestNewUnitMeasures(t *testing.T) {
	u := newUnit(etcdkv.Txn{
		If:   []clientv3.Cmp{clientv3.Compare(clientv3.Value("cc"), ">", "12345")},
		Then: []clientv3.Op{clientv3.OpPut("a", "123"), clientv3.OpGet("b"), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("nn", "1")}, nil)},
		Else: []clientv3.Op{clientv3.OpGet("cc")},
	})
	if got, want := u.size, (2+5+16)+(1+3+16)+(1+16)+16+(2+1+16)+(2+16); got != want {
		t.Errorf("size: got %d, want %d", got, want)
	}
	if got, want := u.depth, 3+1; got != want {
		t.Errorf("depth: got %d, want %d", got, want)
	}
	if u.evidence != "a" || u.ranged || u.alone || !u.gets {
		t.Errorf("got evidence %q, ranged %v, alone %v, gets %v; want a, false, false, true", u.evidence, u.ranged, u.alone, u.gets)
	}
	if len(u.touches) != 4 {
		t.Errorf("touches: got %d, want cc, a, b and nn", len(u.touches))
	}
}

func TestDepthCountsEachLevel(t *testing.T) {
	puts := func(n int) (ops []clientv3.Op) {
		for range n {
			ops = append(ops, clientv3.OpPut("k", ""))
		}
		return ops
	}
	tests := []struct {
		name string
		txn  etcdkv.Txn
		want int
	}{
		{"nothing", etcdkv.Txn{}, 0},
		{"ops", etcdkv.Txn{Then: puts(3)}, 3},
		{"the longest list", etcdkv.Txn{If: make([]clientv3.Cmp, 5), Then: puts(3), Else: puts(4)}, 5},
		{"nested", etcdkv.Txn{Then: append(puts(2), clientv3.OpTxn(nil, puts(7), nil))}, 3 + 7},
		{"the deepest branch", etcdkv.Txn{Then: []clientv3.Op{
			clientv3.OpTxn(nil, puts(7), nil),
			clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn(nil, puts(9), nil)}),
		}}, 2 + 1 + 9},
	}
	for _, tt := range tests {
		if got := depthOf(tt.txn); got != tt.want {
			t.Errorf("%s: got depth %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestEvidenceIsTheFirstPutOfThenItself(t *testing.T) {
	nested := func(ops ...clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, ops, nil) }
	a, b := clientv3.OpPut("a", ""), clientv3.OpPut("b", "")
	tests := []struct {
		name string
		then []clientv3.Op
		want string
	}{
		{"nothing", nil, ""},
		{"a put", []clientv3.Op{a}, "a"},
		{"the first put", []clientv3.Op{clientv3.OpGet("x"), clientv3.OpDelete("y"), b, a}, "b"},
		{"only deletes", []clientv3.Op{clientv3.OpDelete("a")}, ""},
		{"only a nested put", []clientv3.Op{nested(a)}, ""},
	}
	for _, tt := range tests {
		if got := evidenceOf(tt.then); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The evidence stands because etcd refuses what would remove it again.
func TestEtcdRefusesToDeleteWhatTheTxnPuts(t *testing.T) {
	w := faultkv.NewWorld(t)
	key := w.Data + "k"
	for name, del := range map[string]clientv3.Op{
		"by name":   clientv3.OpDelete(key),
		"by prefix": clientv3.OpDelete(w.Data, clientv3.WithPrefix()),
	} {
		for where, op := range map[string]clientv3.Op{
			"beside":         del,
			"nested":         clientv3.OpTxn(nil, []clientv3.Op{del}, nil),
			"nested in Else": clientv3.OpTxn(nil, nil, []clientv3.Op{del}),
		} {
			_, err := w.Client.Txn(faultkv.Within(t)).Then(clientv3.OpPut(key, ""), op).Commit()
			if !errors.Is(err, rpctypes.ErrDuplicateKey) {
				t.Errorf("deleted %s, %s: got %v, want refused", name, where, err)
			}
		}
	}
}

func TestValidateRefusesWhatCannotTravel(t *testing.T) {
	puts := func(n int) (ops []clientv3.Op) {
		for range n {
			ops = append(ops, clientv3.OpPut("k", ""))
		}
		return ops
	}
	a, get := clientv3.OpPut("a", ""), clientv3.OpGet("a")
	nestedDelete := clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("a")}, nil)
	tests := []struct {
		name string
		txn  etcdkv.Txn
		ok   bool
	}{
		{"1 MiB and a bit", faultkv.PutTxn("k", strings.Repeat("x", 1<<20)), false},
		{"1 MiB less a bit", faultkv.PutTxn("k", strings.Repeat("x", 1<<20-100)), true},
		{"126 puts", etcdkv.Txn{Then: puts(126)}, true},
		{"127 puts", etcdkv.Txn{Then: puts(127)}, false},
		{"126 gets leave no room for the note", etcdkv.Txn{Then: make126(get)}, false},
		{"Else puts", etcdkv.Txn{Else: []clientv3.Op{a}}, false},
		{"Else nests", etcdkv.Txn{Else: []clientv3.Op{clientv3.OpTxn(nil, nil, nil)}}, false},
		{"Else gets", etcdkv.Txn{Else: []clientv3.Op{get}}, true},
		{"read, then write", etcdkv.Txn{Then: []clientv3.Op{get, a}}, true},
		{"write, then read", etcdkv.Txn{Then: []clientv3.Op{a, get}}, true},
		{"write, read, write", etcdkv.Txn{Then: []clientv3.Op{a, get, nestedDelete}}, false},
	}
	for _, tt := range tests {
		err := newUnit(tt.txn).validate()
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: got error %v, want accepted %v", tt.name, err, tt.ok)
		}
	}
}

func make126(op clientv3.Op) (ops []clientv3.Op) {
	for range 126 {
		ops = append(ops, op)
	}
	return ops
}

func TestReplayRevisionOfAGet(t *testing.T) {
	a, get := clientv3.OpPut("a", ""), clientv3.OpGet("a")
	wide := clientv3.OpGet("", clientv3.WithPrefix())
	tests := []struct {
		name string
		ops  []clientv3.Op
		i    int
		want int64
	}{
		{"nothing written", []clientv3.Op{get, clientv3.OpPut("b", "")}, 0, 7},
		{"written before", []clientv3.Op{a, get}, 1, 7},
		{"written after", []clientv3.Op{get, a}, 0, 6},
		{"written after, nested", []clientv3.Op{get, clientv3.OpTxn(nil, nil, []clientv3.Op{a})}, 0, 6},
		{"a range written after", []clientv3.Op{wide, a}, 0, 6},
		{"a range deleted after", []clientv3.Op{get, clientv3.OpDelete("", clientv3.WithPrefix())}, 0, 6},
		{"no get", []clientv3.Op{a, a}, 0, 7},
	}
	for _, tt := range tests {
		if got, err := replayRev(tt.ops, tt.i, 7); got != tt.want || err != nil {
			t.Errorf("%s: got revision %d, error %v, want %d", tt.name, got, err, tt.want)
		}
	}
}

func TestWithdrawAndSendExcludeEachOther(t *testing.T) {
	u := unitOf("w:a")
	if !u.withdraw() || u.send() || u.withdraw() {
		t.Error("a withdrawn unit must not be sent, nor withdrawn twice")
	}
	u = unitOf("w:a")
	if !u.send() || u.withdraw() || !u.send() {
		t.Error("a sent unit can be sent again, not withdrawn")
	}
	u.unsend()
	if !u.withdraw() {
		t.Error("a unit that was not applied can be withdrawn again")
	}
	u.unsend()
	if u.send() {
		t.Error("unsend must not revive a withdrawn unit")
	}
}
