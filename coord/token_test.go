package coord_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/leasekit/leasekit/coord"
)

func TestTokenRoundTrip(t *testing.T) {
	for _, want := range []coord.Token{1, 42, 1<<53 + 1, math.MaxInt64} {
		got, err := coord.ParseToken(want.String())
		if err != nil || got != want || got.IsZero() {
			t.Errorf("parse %s: got %v, %v", want, got, err)
		}
		b, err := json.Marshal(want)
		if err != nil || string(b) != `"`+want.String()+`"` {
			t.Errorf("marshal %s: got %s, %v, want a string", want, b, err)
		}
		for _, in := range []string{string(b), want.String()} {
			var back coord.Token
			if err := json.Unmarshal([]byte(in), &back); err != nil || back != want {
				t.Errorf("unmarshal %s: got %v, %v", in, back, err)
			}
		}
	}
}

func TestTokenZero(t *testing.T) {
	var zero coord.Token
	b, err := json.Marshal(zero)
	if err != nil || !zero.IsZero() {
		t.Errorf("zero token: %s, %v", b, err)
	}
	if err := json.Unmarshal(b, &zero); err != nil || zero != 0 {
		t.Errorf("unmarshal %s: got %v, %v", b, zero, err)
	}
	kept := coord.Token(7)
	if err := json.Unmarshal([]byte("null"), &kept); err != nil || kept != 7 {
		t.Errorf("unmarshal null: got %v, %v, want it unchanged", kept, err)
	}
}

func TestTokenRefusesNonsense(t *testing.T) {
	for _, s := range []string{"", "0", "-1", "x", "1.5", "0x10", " 1", "9223372036854775808"} {
		if got, err := coord.ParseToken(s); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("parse %q: got %v, %v, want ErrInvalid", s, got, err)
		}
	}
	for _, s := range []string{`""`, `"x"`, `-1`, `"-1"`, `1.5`, `1e3`, `true`, `{}`, `[1]`} {
		kept := coord.Token(7)
		if err := json.Unmarshal([]byte(s), &kept); !errors.Is(err, coord.ErrInvalid) || kept != 7 {
			t.Errorf("unmarshal %s: got %v, %v, want ErrInvalid", s, kept, err)
		}
	}
}
