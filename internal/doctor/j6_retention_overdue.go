package doctor

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

var j6RetentionOverdue = &Check{
	Code: "J6", Severity: Warning,
	Means: "a done job hangs on no retention lease, as after a put by hand: it would be kept for ever, or on the lease of a session, with which it goes",
	Fix:   "deletes the one that would be kept for ever",
	needs: []string{dirQueues},
	one:   "1 done job without a retention lease", many: "%d done jobs without a retention lease",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		var found []*Finding
		note := ""
		for _, q := range e.look.queuesOf() {
			if q.doneBytes > doneBudget {
				note = "only the first " + mebi(doneBudget) + " of done jobs were read"
			}
			unread := map[string]bool{} // J2 and J7: not to be deleted before anybody has read them
			for _, u := range q.unread {
				unread[u.name] = true
			}
			for _, kv := range q.noLease {
				if unread[string(kv.Key)] {
					continue
				}
				p, _ := e.store.Keys().Parse(string(kv.Key))
				f := &Finding{
					Severity: Warning, What: "no retention lease", Subject: q.ref(p.ID), Detail: q.ref(p.ID) + " revision " + decimal(kv.ModRevision),
					Key: string(kv.Key), Revision: decimal(kv.ModRevision), still: map[string]int64{string(kv.Key): kv.ModRevision},
				}
				if sid := e.look.leasedTo[kv.Lease]; sid != "" {
					f.Detail, f.Advice = f.Detail+" goes with session "+sid, "leasectl jobs get, while it is there"
				} else {
					f.Plan, f.repair = "delete "+q.ref(p.ID)+" from done/", deleteLeftover(withoutBody(kv))
				}
				found = append(found, f)
			}
		}
		return note, found, nil
	},
}

// withoutBody keeps of a record what guards it.
func withoutBody(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	head := kv.Value[:min(len(kv.Value), 64)]
	return &mvccpb.KeyValue{Key: kv.Key, Value: append([]byte(nil), head...), ModRevision: kv.ModRevision, Lease: kv.Lease}
}
