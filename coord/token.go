package coord

import (
	"strconv"

	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Token is the fencing token of a claim: the claimed key's ModRevision at the
// moment of the claim. It rises strictly per key; tokens of different keys say
// nothing about each other, because all puts of one Txn share a revision.
//
// In JSON a Token is a string: revisions can exceed 2^53. A plain number is
// accepted when reading. The zero Token belongs to no claim.
type Token int64

// ParseToken reads what [Token.String] writes. The error wraps [ErrInvalid].
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, &fault.InputError{Field: "token", Value: s, Reason: "a token is a positive decimal number, as printed with the claim"}
	}
	return Token(n), nil
}

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// IsZero tells whether t belongs to no claim.
func (t Token) IsZero() bool { return t == 0 }

// MarshalJSON writes the token as a decimal string.
func (t Token) MarshalJSON() ([]byte, error) { return keyspace.MarshalToken(int64(t)), nil }

// UnmarshalJSON reads a decimal string or a plain number; null changes nothing.
// The error wraps [ErrInvalid].
func (t *Token) UnmarshalJSON(b []byte) error { return keyspace.UnmarshalToken(b, (*int64)(t)) }
