package election

import "errors"

var (
	// ErrResigned is the cause of a term's context that ended by Resign or Transfer.
	ErrResigned = errors.New("resigned")
	// ErrNotLeader means that this elector does not lead now.
	ErrNotLeader = errors.New("not the leader")
)
