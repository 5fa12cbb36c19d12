package doctor

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var e5History = &Check{
	Code: "E5", Severity: Warning,
	Means: "etcd keeps a long history, so it is not being compacted, or too rarely: every write stays in the database, which fills its quota in minutes at full speed",
	needs: []string{dirMeta},
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		oldest, err := e.oldestRevision(ctx)
		if err != nil {
			return "", nil, err
		}
		kept := e.look.rev - oldest
		note := fmt.Sprintf("history of %d revisions", kept)
		if kept <= e.opts.MaxHistory {
			return note, nil, nil
		}
		what := fmt.Sprintf("%d revisions of history kept", kept)
		detail := fmt.Sprintf("back to revision %d", oldest)
		if oldest <= 1 {
			detail = "it was never compacted"
		}
		return note, []*Finding{{
			Severity: Warning, What: what, Subject: "etcd", Detail: detail,
			Advice: "run etcd with --auto-compaction-retention, such as 5m; once: etcdctl compact " + decimal(e.look.rev),
		}}, nil
	},
}

// oldestRevision finds the oldest revision that can be read. etcd does not tell it, but refuses to read older ones, so
// halving finds it within some dozens of reads of one key.
func (e *Exam) oldestRevision(ctx context.Context) (int64, error) {
	low, high := int64(1), e.look.rev // high can be read, or could be when the look began
	for low < high {
		middle := low + (high-low)/2
		_, err := e.client.Get(ctx, e.store.Keys().Meta(), clientv3.WithRev(middle), clientv3.WithCountOnly())
		switch {
		case isCompacted(err):
			low = middle + 1
		case err != nil:
			return 0, fmt.Errorf("look for the oldest revision: %w", err)
		default:
			high = middle
		}
	}
	return low, nil
}
