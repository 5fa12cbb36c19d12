package doctor

import (
	"context"
	"slices"
	"strings"
)

var e2Alarm = &Check{
	Code: "E2", Severity: Error, say: true,
	Means: "etcd has raised an alarm. NOSPACE: it takes no more writes, so no job is claimed or completed, until it is compacted, defragmented, and the alarm disarmed. CORRUPT: members disagree about their data",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var raised []string
		for _, st := range e.cluster.healthy() {
			for _, text := range st.Errors {
				// memberID:123 alarm:NOSPACE
				if _, alarm, ok := strings.Cut(text, "alarm:"); ok && !slices.Contains(raised, strings.TrimSpace(alarm)) {
					raised = append(raised, strings.TrimSpace(alarm))
				}
			}
		}
		var found []*Finding
		for _, alarm := range raised {
			f := &Finding{Severity: Error, What: "alarm " + alarm, Subject: alarm, Advice: "restore the member from its peers"}
			if alarm == "NOSPACE" {
				f.Detail, f.Advice = "etcd refuses writes", "etcdctl compact, defrag and alarm disarm, in this order"
			}
			found = append(found, f)
		}
		return "no alarms", found, nil
	},
}
