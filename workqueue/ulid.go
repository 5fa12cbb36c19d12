package workqueue

import (
	"crypto/rand"
	"os"
	"time"
)

// newID returns a ULID (github.com/ulid/spec): 48 bits of time and 80 random
// bits in Crockford's base 32, so that ids sort by age and can be read aloud.
func newID(now time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var random [16]byte
	rand.Read(random[:])
	var id [26]byte
	ms := uint64(now.UnixMilli())
	for i := 9; i >= 0; i-- {
		id[i] = alphabet[ms&31]
		ms >>= 5
	}
	for i := range random {
		id[10+i] = alphabet[random[i]&31]
	}
	return string(id[:])
}

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "unnamed"
}
