package simulate

import "fmt"

// long has jobs that take several leases, and no fault: renewals keep them.
func long() *scenario {
	return &scenario{
		name:  "long",
		about: "Every fifth job takes two to four leases; nobody fails, and nobody takes a live agent's job over.",
		modes: []Mode{Claim, Dispatch},
		details: []detail{
			{name: "takeovers", label: "takeovers", of: func(o *outcome) float64 { return float64(o.takeovers) }, total: true},
		},
		shows: func(_ *Result, trials []*outcome) []Check {
			n := 0
			for _, o := range trials {
				n += o.takeovers
			}
			return []Check{{Claim: "no live agent's job was taken over", Held: n == 0, Found: fmt.Sprintf("%d takeovers", n)}}
		},
	}
}
