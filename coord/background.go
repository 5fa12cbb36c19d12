package coord

import (
	"context"
	"sync"
)

// background is what goes on behind calls that returned by their ctx: clean-up
// that must be carried to its end. The zero value is ready. Safe for concurrent
// use.
type background struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
}

// start runs f in a goroutine; its ctx ends when close gives up waiting. False
// means that it is too late.
func (b *background) start(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	ctx := b.ctx
	b.wg.Go(func() { f(ctx) })
	return true
}

// close refuses new work and waits for what runs, until ctx ends; then it ends
// their contexts and joins them.
func (b *background) close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	cancel := b.cancel
	b.mu.Unlock()
	if cancel == nil {
		return
	}
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	b.wg.Wait()
	cancel()
}
