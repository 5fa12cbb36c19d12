package election

import (
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/usercode"
)

// guarded returns hooks that are never nil and never panic: what one of them does must
// not cost the term, or its process.
func (h Hooks) guarded(log *zap.Logger) Hooks {
	return Hooks{
		Elected: func(t *Term) {
			if h.Elected != nil {
				usercode.Hook(log, "Elected", func() { h.Elected(t) })
			}
		},
		Ended: func(t *Term, cause error) {
			if h.Ended != nil {
				usercode.Hook(log, "Ended", func() { h.Ended(t, cause) })
			}
		},
		Stuck: func(t *Term) {
			if h.Stuck != nil {
				usercode.Hook(log, "Stuck", func() { h.Stuck(t) })
			}
		},
	}
}
