package embedetcd

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// handlersGrace bounds how long a member that is halted waits for the calls that it
// serves to see that their connection is gone.
const handlersGrace = 5 * time.Second

// handlers counts the calls that a member serves. etcd does not wait for them before
// it closes the storage, which is fine for a process that ends, but panics when one
// of them, such as a login, looks at the storage then.
type handlers struct {
	mu     sync.Mutex
	n      int
	ending bool
	idle   chan struct{} // closed when ending and none is left
}

func newHandlers() *handlers { return &handlers{idle: make(chan struct{})} }

// options make a server count its calls.
func (h *handlers) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if !h.enter() {
				return nil, errHalted
			}
			defer h.leave()
			return handle(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if !h.enter() {
				return errHalted
			}
			defer h.leave()
			return handle(srv, stream)
		}),
	}
}

var errHalted = status.Error(codes.Unavailable, "the member is halted")

func (h *handlers) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return false
	}
	h.n++
	return true
}

func (h *handlers) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.ending && h.n == 0 {
		close(h.idle)
	}
}

// end lets no more calls in and waits for those that are under way, for handlersGrace
// at most. Their contexts must have ended. Once only.
func (h *handlers) end() {
	h.mu.Lock()
	h.ending = true
	if h.n == 0 {
		close(h.idle)
	}
	h.mu.Unlock()
	late := time.NewTimer(handlersGrace)
	defer late.Stop()
	select {
	case <-h.idle:
	case <-late.C:
	}
}
