package doctor

import (
	"context"
	"fmt"
)

var e1EndpointDown = &Check{
	Code: "E1", Severity: Error, say: true,
	Means: "an endpoint, or a member of the cluster, does not answer: one fault less is survived. A member whose address is not among the endpoints is a warning, since it may just not be reachable from here",
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, ep := range e.cluster.endpoints {
			if ep.status != nil {
				continue
			}
			f := &Finding{Severity: Error, Subject: ep.url, Advice: "start it, or look at its log"}
			if !ep.given {
				f.Severity = Warning
			}
			f.Detail = ep.url + ": " + e.explain(ctx, ep)
			found = append(found, f)
		}
		n, all := len(e.cluster.healthy()), len(e.cluster.endpoints)
		for _, f := range found {
			f.What = fmt.Sprintf("%d of %d endpoints down", all-n, all)
		}
		return fmt.Sprintf("%d/%d endpoints healthy", n, all), found, nil
	},
}

// explain says why an endpoint does not answer.
func (e *Exam) explain(ctx context.Context, ep endpoint) string {
	if e.opts.Explain != nil {
		if why := e.opts.Explain(ctx, ep.url); why != "" {
			return why
		}
	}
	if ep.err == nil {
		return "no answer"
	}
	return ep.err.Error()
}
