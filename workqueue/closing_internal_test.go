package workqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasekit/leasekit/internal/queue"
)

// A worker that stops waits for no closing write beyond its last moment.
func TestNoClosingWriteOutlastsTheWorker(t *testing.T) {
	var stop context.CancelFunc
	w := &Worker{}
	w.last, stop = context.WithCancel(t.Context())
	ctx, cancel := w.closingContext()
	defer cancel()
	if ends, ok := ctx.Deadline(); !ok || time.Until(ends) > closeTimeout {
		t.Errorf("a closing write is waited for until %v", ends)
	}
	stop()
	if ctx.Err() == nil {
		t.Error("a closing write is waited for behind the worker's end")
	}
}

// That moment comes Grace and leaveTimeout after draining is over: whatever a handler
// leaves at the end of its grace has time to arrive, and nothing has more.
func TestTheLastMomentLeavesRoomForTheLastResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{q: &Queue{core: &queue.Core{Lifetime: queue.Lifetime{Life: t.Context()}}}, cfg: WorkerConfig{}.withDefaults()}
		w.hard, w.hardStop = context.WithCancelCause(t.Context())
		defer w.endAtLast()()
		time.Sleep(time.Hour)
		began := time.Now()
		w.hardStop(ErrDraining)
		<-w.last.Done()
		if got, want := time.Since(began), w.cfg.Grace+leaveTimeout; got != want {
			t.Errorf("the last moment came %v after draining was over, want %v", got, want)
		}
	})
}

// A process that stops has 30 s in a pod. By default all that a worker and its queue may
// take is at most 25: running handlers, their grace, what they left, the session, and the
// queue's handle.
func TestDefaultsFitIntoAPodsTimeToStop(t *testing.T) {
	const session = 3 * time.Second // see coord.SessionKeeper.Run
	c := WorkerConfig{}.withDefaults()
	if sum := c.DrainTimeout + c.Grace + leaveTimeout + session + queue.CloseWithin + time.Second; sum > 25*time.Second {
		t.Errorf("a worker with defaults may take %v to stop", sum)
	}
}
