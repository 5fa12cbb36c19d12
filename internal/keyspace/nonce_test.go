package keyspace_test

import (
	"testing"

	"github.com/leasekit/leasekit/internal/keyspace"
)

func TestNonceOf(t *testing.T) {
	const midNonce = "5123456789abcdef"
	recordOf := func(nonce string) string { return `{"w":"` + nonce + `","kind":"test"}` }
	tests := []struct{ value, want string }{
		{recordOf(midNonce), midNonce},
		{`{"w":"` + midNonce + `"}`, midNonce},
		{`{"w":"` + midNonce + `"`, midNonce},
		{`{"w":"` + midNonce, ""},
		{`{"w":"` + midNonce + `0"}`, ""},
		{`{"w":"512345678"}`, ""},
		{`{"w":"5123456789ABCDEF"}`, ""},
		{`{"w":"512345678-abcdef"}`, ""},
		{`{ "w":"` + midNonce + `"}`, ""},
		{`{"x":"` + midNonce + `"}`, ""},
		{"", ""},
		{"binary \x00\xff and more of it, long enough", ""},
	}
	for _, tt := range tests {
		if got := keyspace.NonceOf([]byte(tt.value)); got != tt.want {
			t.Errorf("NonceOf(%s): got %q, want %q", tt.value, got, tt.want)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		n := keyspace.NewNonce()
		if seen[n] || keyspace.NonceOf([]byte(recordOf(n))) != n {
			t.Fatalf("NewNonce: got %q, want 16 fresh hex digits", n)
		}
		seen[n] = true
	}
}
