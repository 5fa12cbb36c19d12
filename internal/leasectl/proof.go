package leasectl

import (
	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/coord"
)

// proof is what the owner of a claim shows of it, from a script.
type proof struct{ token, nonce string }

// addFlags declares the flags.
func (p *proof) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.token, "token", "", "the token of the claim, `N`")
	f.StringVar(&p.nonce, "nonce", "", "the nonce of the claim, `X`")
}

// parse reads the token, which that command printed.
func (p *proof) parse(printer string) (coord.Token, error) {
	token, err := coord.ParseToken(p.token)
	if err != nil || token <= 0 {
		return 0, usagef("the token that "+printer+" printed", "--token is %q: it is a positive number", p.token)
	}
	return token, nil
}
