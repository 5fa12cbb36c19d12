package job

import (
	"testing"
)

func TestRankIsTheQueuesOrder(t *testing.T) {
	inOrder := []Rank{{Priority: 5, CreateRev: 9, Seq: 9, ID: "z"}, {Priority: 5, CreateRev: 10, Seq: 0, ID: "a"}, {Priority: 0, CreateRev: 1, Seq: 2, ID: "z"}, {Priority: 0, CreateRev: 1, Seq: 3, ID: "a"}, {Priority: 0, CreateRev: 1, Seq: 3, ID: "b"}, {Priority: 0, CreateRev: 2, Seq: 0, ID: "a"}, {Priority: -1, CreateRev: 1, Seq: 0, ID: "a"}}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := a.Before(b); got != (i < j) {
				t.Errorf("%v before %v: got %v", a, b, got)
			}
		}
	}
}
