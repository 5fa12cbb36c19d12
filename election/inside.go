package election

import (
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/lane"
)

func init() {
	inside.ServeTerms(func(term any) *lane.Committer { return inside.Of(term.(*Term).session).Committer() })
}
