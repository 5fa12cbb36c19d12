package coord

import (
	"errors"
	"fmt"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/fault"
)

// track enters a claim in the session's book before it is made. The error is
// [Session.Err] when the session is over: then nothing may be claimed; it matches
// claims.ErrTaken when the nonce is in the book already.
func (s *Session) track(nonce string, end claims.End) error {
	if err := s.Err(); err != nil { //mutant:claim-after-loss
		return err
	}
	err := s.book.Track(nonce, end)
	if errors.Is(err, claims.ErrOver) {
		err = fmt.Errorf("session %w", fault.ErrClosed)
	}
	return err
}

// keep says that a claim was made; end is how to give it up from now on. The error is
// [Session.Err] when the session is over: then no work may start on it, and it must be
// given up.
func (s *Session) keep(nonce string, end claims.End) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.book.Hold(nonce, end) != nil {
		return fmt.Errorf("session %w", fault.ErrClosed)
	}
	return nil
}

// sessionGone is why a session ended whose key a linearizable answer lacked.
func sessionGone() error { return fmt.Errorf("%w: its key is gone", fault.ErrSessionLost) }
