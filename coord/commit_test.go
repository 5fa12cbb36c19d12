package coord_test

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

func TestCheckOps(t *testing.T) {
	keys, err := keyspace.New("/leasekit/")
	if err != nil {
		t.Fatal(err)
	}
	puts := func(n int) (ops []clientv3.Op) {
		for range n {
			ops = append(ops, clientv3.OpPut("/app/k", ""))
		}
		return ops
	}
	nest := func(then, els []clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, then, els) }
	del := func(key string, opts ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{clientv3.OpDelete(key, opts...)}
	}
	tests := []struct {
		name string
		ops  []clientv3.Op
		ok   bool
	}{
		{"nothing", nil, true},
		{"60 ops", puts(60), true},
		{"61 ops", puts(61), false},
		{"61 nested ops", []clientv3.Op{nest(puts(61), nil)}, false},
		{"61 nested ops in Else", []clientv3.Op{nest(nil, puts(61))}, false},
		{"nested", []clientv3.Op{nest(puts(10), puts(10))}, true},
		{"put under the root", []clientv3.Op{clientv3.OpPut("/leasekit/queues/q/jobs/00/a", "")}, false},
		{"put on the root", []clientv3.Op{clientv3.OpPut("/leasekit/", "")}, false},
		{"put beside the root", []clientv3.Op{clientv3.OpPut("/leasekit", ""), clientv3.OpPut("/leasekits/a", ""), clientv3.OpPut("/leasekit0", "")}, true},
		{"read under the root", []clientv3.Op{clientv3.OpGet("/leasekit/meta")}, true},
		{"delete under the root", del("/leasekit/meta"), false},
		{"nested under the root", []clientv3.Op{nest(del("/leasekit/meta"), nil)}, false},
		{"nested twice, in Else", []clientv3.Op{nest(nil, []clientv3.Op{nest(nil, del("/leasekit/meta"))})}, false},
		{"prefix that is the root", del("/leasekit/", clientv3.WithPrefix()), false},
		{"prefix that covers the root", del("/lease", clientv3.WithPrefix()), false},
		{"prefix of everything", del("", clientv3.WithPrefix()), false},
		{"prefix beside the root", del("/leasekits", clientv3.WithPrefix()), true},
		{"from a key before the root on", del("/a", clientv3.WithFromKey()), false},
		{"from a key behind the root on", del("/m", clientv3.WithFromKey()), true},
		{"range over the root", del("/a", clientv3.WithRange("/z")), false},
		{"range into the root", del("/a", clientv3.WithRange("/leasekit/b")), false},
		{"range up to the root", del("/a", clientv3.WithRange("/leasekit/")), true},
		{"range from within the root", del("/leasekit/z", clientv3.WithRange("/z")), false},
		{"empty key", []clientv3.Op{clientv3.OpPut("", "")}, false},
	}
	for _, tt := range tests {
		err := etcdkv.CheckOps(keys, tt.ops)
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: got %v, want accepted %v", tt.name, err, tt.ok)
		}
	}
}

func TestErrorsMatchBySituation(t *testing.T) {
	fenced := error(&coord.FencedError{Key: "/k", Wanted: 5, Current: 7})
	input := error(&coord.InputError{Field: "queue", Value: strings.Repeat("q", 300), Reason: "it is too long"})
	tests := []struct {
		name        string
		err, target error
		want        bool
	}{
		{"FencedError is ErrFenced", fenced, coord.ErrFenced, true},
		{"FencedError is not ErrUnknown", fenced, coord.ErrUnknown, false},
		{"FencedError is not ErrRefused", fenced, coord.ErrRefused, false},
		{"InputError is ErrInvalid", input, coord.ErrInvalid, true},
		{"InputError is not ErrFenced", input, coord.ErrFenced, false},
		{"a rewound history is a lost session", coord.ErrHistoryRewound, coord.ErrSessionLost, true},
		{"a lost session is no rewound history", coord.ErrSessionLost, coord.ErrHistoryRewound, false},
	}
	for _, tt := range tests {
		if got := errors.Is(tt.err, tt.target); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	for err, words := range map[error][]string{
		fenced:                                   {"/k", "5", "7"},
		&coord.FencedError{Key: "/k", Wanted: 5}: {"/k", "gone", "5"},
		&coord.FencedError{Key: "/k", Wanted: 5, Current: 5}: {"/k", "5", "another claim: the nonce is a wrong one"},
		input: {"queue", "too long", "..."},
	} {
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: want it to say %q", err, word)
			}
		}
	}
	if n := len(input.Error()); n > 150 {
		t.Errorf("a long value makes a message of %d bytes", n)
	}
}
