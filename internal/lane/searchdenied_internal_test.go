package lane

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// denials are the ways in which etcd may refuse what is on its way.
func (r *laneRun) denials() (moves []move) {
	if r.denied == 0 {
		return nil
	}
	for i, h := range r.b.sortedHeld() {
		name := fmt.Sprintf("request %d", i)
		refuse := func(what string, arrives bool, err error) {
			moves = append(moves, move{name + what, func() { r.denied--; r.refuse(h, arrives, err) }})
		}
		refuse(" is denied", false, rpctypes.ErrPermissionDenied)
		refuse(" finds etcd full", false, rpctypes.ErrNoSpace)
		refuse(" arrives, and etcd says that it is full", true, rpctypes.ErrNoSpace)
	}
	return moves
}

// refuse answers a request with an error. One that does not arrive never will.
func (r *laneRun) refuse(h *heldRequest, arrives bool, err error) {
	r.decide(h, arrives, err)
	if !arrives {
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.late = r.b.late[:len(r.b.late)-1]
	}
}
