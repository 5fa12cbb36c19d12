package keyspace

import (
	"math/rand/v2"
	"strings"
)

// NewNonce returns 16 random hex digits: the first field of every record, fresh
// at every write, so that a guard can tell two writes of one revision number
// apart. Safe for concurrent use.
func NewNonce() string { return Hex16(rand.Uint64()) }

// NonceOf returns the head nonce of a record's value, or "" when the value is
// not a record of ours.
func NonceOf(value []byte) string {
	const open = `{"w":"`
	if len(value) < len(open)+17 || string(value[:len(open)]) != open || value[len(open)+16] != '"' {
		return ""
	}
	nonce := string(value[len(open) : len(open)+16])
	if strings.Trim(nonce, "0123456789abcdef") != "" {
		return ""
	}
	return nonce
}

// Head is how a record with this head nonce begins, byte for byte.
func Head(nonce string) string { return `{"w":"` + nonce + `"` }

// Hex16 is n in 16 hex digits, as session ids and nonces have it.
func Hex16(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[n>>(60-4*i)&0xf]
	}
	return string(b[:])
}
