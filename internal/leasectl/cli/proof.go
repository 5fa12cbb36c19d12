package cli

import (
	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Proof is what the owner of a claim shows of it, from a script.
type Proof struct{ Token, Nonce string }

// AddFlags declares the flags.
func (p *Proof) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Token, "token", "", "the token of the claim, `N`")
	f.StringVar(&p.Nonce, "nonce", "", "the nonce of the claim, `X`")
}

// Parse reads the token, which that command printed.
func (p *Proof) Parse(printer string) (coord.Token, error) {
	token, err := coord.ParseToken(p.Token)
	if err != nil || token <= 0 {
		return 0, exit.Usagef("the token that "+printer+" printed", "--token is %q: it is a positive number", p.Token)
	}
	return token, nil
}
