package workqueue

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/leasekit/leasekit/coord"
)

// Healthz fails while Run runs without a live session, since the worker can then claim
// nothing, and while its session has a claim that nothing here works and that could not
// be given back yet. It is nil before and after Run. Its shape is that of the health
// checks of controller managers. Safe for concurrent use.
func (w *Worker) Healthz(*http.Request) error {
	w.mu.Lock()
	s, serving := w.session, w.serving
	w.mu.Unlock()
	switch {
	case !serving:
		return nil
	case s == nil:
		return fmt.Errorf("worker of %s: it has no session", w.q.core.Name())
	}
	if err := s.Healthz(); err != nil {
		return fmt.Errorf("worker of %s: session: %w", w.q.core.Name(), err)
	}
	return nil
}

// service is what a worker's health is judged by.
type service struct {
	mu      sync.Mutex
	session *coord.Session // the one under which jobs are taken
	serving bool           // Run takes jobs
}

// serves notes the session under which the worker works, nil while it has none.
func (w *Worker) serves(s *coord.Session, serving bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session, w.serving = s, serving
}
