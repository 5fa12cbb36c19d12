package workqueue

import (
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

func init() {
	fresh := []string{"job mod =", "done mod =", "dead mod ="}
	txnCases = append(txnCases,
		txnCase{"import a live job", "restore", restoring("open", false, ""), []string{"jobs/x", "payloads/x", "progress/x"}, fresh},
		txnCase{"import a done job", "restore", restoring("done", false, ""), []string{"done/x"}, fresh},
		txnCase{"import a dead job", "restore", restoring("dead", false, ""), []string{"dead/x", "payloads/x", "progress/x"}, fresh},
		txnCase{"import a live job over a done one", "restore", restoring("open", false, "done"), []string{"jobs/x", "payloads/x", "progress/x"}, fresh},
		txnCase{"import a bare job over a dead one", "restore", restoring("open", true, "dead"), []string{"jobs/x"}, fresh},
		txnCase{"import a dead job over a live one", "restore", restoring("dead", false, "open"), []string{"dead/x", "payloads/x", "progress/x"}, fresh},
	)
}

// restoring imports a job in the place of what is there, if anything.
func restoring(state string, bare bool, over string) func(w *world) (etcdkv.Txn, error) {
	return func(w *world) (etcdkv.Txn, error) {
		var seen job.ImportSeen
		if over != "" {
			l := w.job(over)
			seen[l.Where] = l.Rev
		}
		r, where := jobtest.In(state)
		r.Nonce = keyspace.NewNonce()
		im := &job.Imported{Record: r, Where: where}
		if where != job.InDone && !bare {
			r.Beside = 3
			im.Payload, im.Note = []byte("pay"), `{"w":"`+middleNonce+`"}`
		}
		return w.Restore(im.Restored(w.lease), seen)
	}
}
