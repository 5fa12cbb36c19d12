package claims

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// rig is a book in a bubble, and what it tells.
type rig struct {
	*Book
	wg       sync.WaitGroup
	life     context.Context
	end      context.CancelFunc
	reported []string
	mu       sync.Mutex
}

func newRig(t *testing.T) *rig {
	r := &rig{}
	r.life, r.end = context.WithCancel(t.Context())
	r.Book = NewBook(func(f func(context.Context)) bool {
		if r.life.Err() != nil {
			return false
		}
		r.wg.Go(func() { f(r.life) })
		return true
	}, func(nonce string, _ error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported = append(r.reported, nonce)
	})
	return r
}

func (r *rig) behind(f func(context.Context)) bool { return r.Book.behind(f) }

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f(t, r)
		r.end()
		r.wg.Wait()
	})
}

// failing is an End that fails n times. The reconciler and one who leaves the book may
// call it at the same time.
func failing(n int64) (end End, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return func(context.Context) error {
		if calls.Add(1) <= n {
			return errors.New("denied")
		}
		return nil
	}, calls
}

// A claim without a caller is ended, however often that fails, whatever state its
// caller left it in; it is said once.
func TestReconcilerEndsStrays(t *testing.T) {
	for name, prepare := range map[string]func(r *rig, end End){
		"claiming":           func(r *rig, end End) { _ = r.Track("n", end) },
		"held":               func(r *rig, end End) { _ = r.Track("n", nil); _ = r.Hold("n", end) },
		"by another process": func(r *rig, end End) { _ = r.Hold("n", end) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				end, calls := failing(20)
				prepare(r, end)
				r.Settle("n")
				r.Settle("n") // once is enough
				synctest.Wait()
				if err := r.Trouble(); err == nil {
					t.Error("a claim that cannot be ended is no trouble")
				}
				<-r.Drained()
				if calls.Load() != 21 || len(r.reported) != 1 || r.Trouble() != nil {
					t.Errorf("ended after %d calls, reported %v, trouble %v", calls.Load(), r.reported, r.Trouble())
				}
			})
		})
	}
}

// What nobody has left is nobody's to end.
func TestReconcilerLeavesTheOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		end, calls := failing(0)
		_, _ = r.Track("claiming", end), r.Hold("held", end)
		r.Settle("unknown")
		<-time.After(time.Hour) // of the bubble
		if calls.Load() != 0 || r.Len() != 2 {
			t.Errorf("%d calls, %d claims", calls.Load(), r.Len())
		}
		r.Untrack("claiming")
		r.Untrack("held")
		<-r.Drained()
	})
}

// Where nothing can be written any more, the lease is the last keeper.
func TestSettleBehindTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		end, calls := failing(0)
		_ = r.Hold("n", end)
		r.end()
		r.Settle("n")
		<-r.Drained()
		if calls.Load() != 0 {
			t.Error("ended without a session")
		}
	})
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		good, calls := failing(0)
		bad, _ := failing(1)
		kept, keptCalls := failing(0)
		_, _, _ = r.Hold("good", good), r.Hold("bad", bad), r.Hold("kept", kept)
		_ = r.Track("claiming", func(context.Context) error { t.Error("its caller ends it"); return nil })
		if err := r.Close(t.Context(), "kept"); err == nil {
			t.Error("what could not be ended is not said")
		}
		if calls.Load() != 1 || keptCalls.Load() != 0 || r.Len() != 1 {
			t.Errorf("ended %d, kept %d, left %d", calls.Load(), keptCalls.Load(), r.Len())
		}
		if r.Track("new", good) != ErrOver || r.Hold("new", good) != ErrOver {
			t.Error("a closed book takes claims")
		}
		if err := r.Close(t.Context(), ""); err != nil || keptCalls.Load() != 1 || r.Len() != 0 {
			t.Errorf("closed for good: %v, kept %d, left %d", err, keptCalls.Load(), r.Len())
		}
	})
}

// What is held goes on with the session; what no caller has would be forgotten.
func TestLeaveEndsStrays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		end, calls := failing(1)
		bad, _ := failing(20)
		held, heldCalls := failing(0)
		_, _, _ = r.Track("stray", end), r.Track("bad", bad), r.Hold("held", held)
		r.Settle("stray")
		r.Settle("bad")
		synctest.Wait() // the reconciler has tried once
		if err := r.Leave(t.Context()); err == nil {
			t.Error("what could not be ended is not said")
		}
		if calls.Load() != 2 || heldCalls.Load() != 0 || r.Len() != 0 {
			t.Errorf("ended after %d calls, held %d, left %d", calls.Load(), heldCalls.Load(), r.Len())
		}
		if r.Track("new", end) != ErrOver {
			t.Error("a book that was left takes claims")
		}
	})
}

// A claim that is being made while the session is left is known to no other process
// either: its caller, who hears of it meanwhile, leaves it to the book.
func TestLeaveWaitsForWhatIsBeingMade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		end, calls := failing(0)
		_, _ = r.Track("unsure", end), r.Track("refused", end)
		left := make(chan error, 1)
		go func() { left <- r.Leave(t.Context()) }()
		synctest.Wait()
		if r.Track("new", end) != ErrOver {
			t.Error("a book that is being left takes claims")
		}
		r.Untrack("refused")
		r.Settle("unsure")
		if err := <-left; err != nil || calls.Load() == 0 || r.Len() != 0 {
			t.Errorf("%v, ended %d, left %d", err, calls.Load(), r.Len())
		}
	})
}

// It waits no longer than its ctx.
func TestLeaveIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_ = r.Track("n", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Leave(ctx); err != nil || r.Len() != 0 {
			t.Errorf("%v, left %d", err, r.Len())
		}
	})
}
