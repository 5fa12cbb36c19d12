package keyspace

import (
	"strings"
	"testing"
)

// A nonce is what a record begins with, or nothing.
func FuzzNonceOf(f *testing.F) {
	for _, v := range []string{"", `{"w":"0123456789abcdef"}`, `{"w":"0123456789ABCDEF"}`, `{"w":"0123456789abcdef`, `{ "w":"0123456789abcdef"}`, `{"w":"0123456789abcde\"`} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		n := NonceOf(value)
		if n != "" && (len(n) != 16 || !strings.HasPrefix(string(value), Head(n))) {
			t.Errorf("%q begins with no nonce %q", value, n)
		}
		if head := Head("0123456789abcdef"); strings.HasPrefix(string(value), head) != (n == "0123456789abcdef") {
			t.Errorf("%q: got nonce %q", value, n)
		}
	})
}
