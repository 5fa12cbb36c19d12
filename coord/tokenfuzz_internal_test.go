package coord

import (
	"encoding/json"
	"errors"
	"testing"
)

// A token is read as it is printed, as text and as JSON.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "9223372036854775807", "9223372036854775808", "01", "+1", " 1", "", "null", `"7"`, "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := ParseToken(s); err == nil {
			if back, err := ParseToken(tok.String()); back != tok || err != nil || tok <= 0 {
				t.Errorf("%q is token %s, which is read as %s, %v", s, tok, back, err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", s, err)
		}
		var tok, back Token
		if json.Unmarshal([]byte(s), &tok) == nil {
			b, err := json.Marshal(tok)
			if err != nil || json.Unmarshal(b, &back) != nil || back != tok || tok < 0 {
				t.Errorf("%q is token %s, written as %s", s, tok, b)
			}
		}
	})
}
