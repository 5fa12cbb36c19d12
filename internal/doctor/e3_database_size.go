package doctor

import (
	"context"
	"fmt"
)

// The shares of the quota that are reported. At the first one enqueues are refused.
const (
	sizeWarning = 0.80
	sizeError   = 0.95
)

var e3DatabaseSize = &Check{
	Code: "E3", Severity: Error, say: true,
	Means: "etcd's database nears its quota: above 80 % enqueues are refused, at 100 % every write is",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		note := "quota not known"
		var worst *Finding
		share := 0.0
		for _, ep := range e.cluster.endpoints {
			if ep.status == nil || ep.status.DbSizeQuota <= 0 {
				continue
			}
			st := ep.status
			if s := float64(st.DbSize) / float64(st.DbSizeQuota); s > share || share == 0 {
				share = s
				note = fmt.Sprintf("db %.0f%% of quota", 100*s)
				worst = &Finding{
					Severity: Warning, What: note, Subject: ep.url,
					Detail: fmt.Sprintf("%s of %s, %s in use", mebi(st.DbSize), mebi(st.DbSizeQuota), mebi(st.DbSizeInUse)),
					Advice: "etcdctl compact and defrag, fewer waiting jobs, or a larger --quota-backend-bytes",
				}
			}
		}
		if share < sizeWarning {
			return note, nil, nil
		}
		if share >= sizeError {
			worst.Severity = Error
		}
		return note, []*Finding{worst}, nil
	},
}

func mebi(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
