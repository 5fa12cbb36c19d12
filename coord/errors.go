package coord

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced matches every [FencedError]: the write was refused because the
	// claim is no longer current. Nothing was written.
	ErrFenced = errors.New("fenced: the claim is no longer current")
	// ErrHeld means that a claim could not be had without waiting.
	ErrHeld = errors.New("held by somebody else")
)

// FencedError is a refused write: the claim with the wanted token is not
// current. It matches [ErrFenced].
type FencedError struct {
	// Key is the claimed key.
	Key string
	// Wanted is the token that the write carried.
	Wanted Token
	// Current is the key's mod revision at the refusal, zero when it is gone.
	Current Token
}

// Error names the key and both tokens.
func (e *FencedError) Error() string {
	if e.Current.IsZero() {
		return fmt.Sprintf("fenced: %s is gone, token %s is no longer current", e.Key, e.Wanted)
	}
	if e.Current == e.Wanted {
		return fmt.Sprintf("fenced: %s is at token %s, but of another claim: the nonce is a wrong one, or etcd's history went back", e.Key, e.Wanted)
	}
	return fmt.Sprintf("fenced: %s is at token %s, not %s", e.Key, e.Current, e.Wanted)
}

// Is makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }
