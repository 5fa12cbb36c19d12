package doctor

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

var k2Leftover = &Check{
	Code: "K2", Severity: Warning,
	Means: "a key of ours belongs to nothing any more: an inbox entry without its claim; payload or progress without a job; a lane without its own lease; a refusal without any; a registration or waiting entry without its session's",
	Fix:   "deletes it",
	needs: []string{dirQueues},
	one:   "1 leftover key", many: "%d leftover keys",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		for _, kv := range e.look.leaseless {
			why := "no lease"
			if kv.Lease != 0 {
				why = fmt.Sprintf("on lease %016x, not on its own", kv.Lease)
			}
			found = append(found, e.leftover(withoutBody(kv), why))
		}
		for _, q := range e.look.queuesOf() {
			for _, k := range append(q.payloads[:len(q.payloads):len(q.payloads)], q.progress...) {
				if q.where[k.p.ID]&(inJobs|inDead) == 0 {
					found = append(found, e.leftover(k.kv(), "no job"))
				}
			}
			unread := map[string]bool{}
			for _, u := range q.unread {
				unread[u.p.ID] = true
			}
			for _, k := range q.inbox {
				if o := q.owned[k.p.ID]; !unread[k.p.ID] && o != (ownedBy{k.p.Session, k.rev}) {
					found = append(found, e.leftover(k.kv(), "no claim"))
				}
			}
		}
		return "", found, nil
	},
}

func (e *Exam) leftover(kv *mvccpb.KeyValue, why string) *Finding {
	key := string(kv.Key)
	return &Finding{
		Severity: Warning, What: "leftover key", Subject: key, Detail: key + " (" + why + ")", Key: key, Revision: decimal(kv.ModRevision),
		still: map[string]int64{key: kv.ModRevision}, Plan: "delete " + key, repair: deleteLeftover(kv),
	}
}
