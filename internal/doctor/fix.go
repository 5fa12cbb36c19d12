package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leftover"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

// repair is how a finding is mended: by a call, or by taking a leftover away. It is guarded by what was found.
type repair struct {
	leftover *mvccpb.KeyValue
	do       func(ctx context.Context, e *Exam, by workqueue.By) (done string, err error)
}

func deleteLeftover(kv *mvccpb.KeyValue) repair { return repair{leftover: kv} }

// onQueue repairs something of a queue at the revision at which it was found.
func onQueue(queue string, rev int64, act func(context.Context, *workqueue.Queue, workqueue.By) (done string, err error)) repair {
	return repair{do: func(ctx context.Context, e *Exam, by workqueue.By) (string, error) {
		by.Revision = rev
		q, err := e.queue(ctx, queue)
		if err != nil {
			return "", err
		}
		return act(ctx, q, by)
	}}
}

// onJob repairs a job at the revision at which it was found.
func onJob(queue, id string, rev int64, act func(context.Context, *workqueue.Queue, string, workqueue.By) (*workqueue.Job, error)) repair {
	return onQueue(queue, rev, func(ctx context.Context, q *workqueue.Queue, by workqueue.By) (string, error) {
		j, err := act(ctx, q, id, by)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s (rev %d)", escape.Job(queue, id), j.Revision), nil
	})
}

// forceRelease takes a lock, as long as it is the claim that was found.
func forceRelease(name string, token coord.Token) repair {
	return repair{do: func(ctx context.Context, e *Exam, by workqueue.By) (string, error) {
		st, err := line.LockState(ctx, e.store, name)
		if err != nil {
			return "", err
		}
		if coord.Token(st.Token) != token {
			return "", fmt.Errorf("lock %s: %w: its token is %s, not %s", name, workqueue.ErrConflict, coord.Token(st.Token), token)
		}
		if err := line.ForceRelease(ctx, e.store, st, "", by.Actor, by.Reason); err != nil {
			return "", err
		}
		return "lock " + named(name), nil
	}}
}

// ErrNewerSchema means that nothing is repaired since a newer program has written the keys.
var ErrNewerSchema = errors.New("the keys were written by a newer version: use its leasectl to repair them")

// fixAtOnce is how many repairs are under way: they share etcd's transactions.
const fixAtOnce = 32

// Fix makes the planned repairs and puts what became of them into the report. It blocks until all outcomes are known or
// ctx ends; the error tells that nothing was tried.
func (e *Exam) Fix(ctx context.Context, by workqueue.By) error {
	if e.look != nil && keyspace.CheckMeta(e.look.meta) != nil {
		return ErrNewerSchema
	}
	var leftovers, others []*Finding
	for _, f := range e.Report.Fixable() {
		if f.repair.leftover != nil {
			leftovers = append(leftovers, f)
		} else {
			others = append(others, f)
		}
	}
	atOnce(len(others), fixAtOnce, func(i int) {
		f, why := others[i], by
		why.Reason = cmp.Or(by.Reason, "leasectl doctor: "+f.Code+" "+f.What)
		f.mended(f.repair.do(ctx, e, why))
	})
	if len(leftovers) > 0 {
		seen := make([]*mvccpb.KeyValue, len(leftovers))
		for i, f := range leftovers {
			seen[i] = f.repair.leftover
		}
		for i, err := range leftover.Delete(ctx, e.store, seen) {
			leftovers[i].mended(leftovers[i].Subject, err)
		}
	}
	e.Report.settle()
	return nil
}

// atOnce calls do for each of 0..n-1, at most width of them at a time, and returns when all have ended.
func atOnce(n, width int, do func(i int)) {
	var wait sync.WaitGroup
	room := make(chan struct{}, width)
	for i := range n {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	wait.Wait()
}

func (f *Finding) mended(done string, err error) {
	f.Status, f.Done = Fixed, done
	if err != nil {
		f.Status, f.Done, f.Error = Failed, "", err.Error()
	}
}
