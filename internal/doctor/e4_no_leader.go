package doctor

import "context"

var e4NoLeader = &Check{
	Code: "E4", Severity: Error,
	Means: "etcd has no leader with a quorum: nothing can be read for sure, and nothing written",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		if !e.cluster.answered {
			f := &Finding{
				Severity: Error, What: "no leader", Subject: "etcd", Detail: "no read was answered; nothing under the root was checked",
				Advice: "start enough members for a majority, or restore a backup",
			}
			return "", append(found, f), nil
		}
		for _, ep := range e.cluster.endpoints {
			if ep.status != nil && ep.status.Leader == 0 {
				found = append(found, &Finding{
					Severity: Error, What: "a member sees no leader", Subject: ep.url, Detail: ep.url + " is cut off from the others",
					Advice: "look at the network between the members",
				})
			}
		}
		return "leader elected", found, nil
	},
}
