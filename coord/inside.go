package coord

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/lane"
)

func init() {
	inside.ServeSessions(func(public any) inside.Session { return insider{public.(*Session)} })
}

// insider is a session as Leasekit's own packages see it.
type insider struct{ s *Session }

func (i insider) Store() *etcdkv.Store                     { return i.s.store }
func (i insider) Committer() *lane.Committer               { return i.s.committer }
func (i insider) Book() *claims.Book                       { return i.s.book }
func (i insider) CreateRevision() int64                    { return i.s.createRev }
func (i insider) Leadership(name string) any               { return newLeadership(i.s, name) }
func (i insider) Track(nonce string, end claims.End) error { return i.s.track(nonce, end) }
func (i insider) Keep(nonce string, end claims.End) error  { return i.s.keep(nonce, end) }
func (i insider) Behind(f func(ctx context.Context)) bool  { return i.s.aside.start(f) }

func (i insider) LetLapse(ctx context.Context, nonce string) {
	i.s.end(fmt.Errorf("%w: it was left to run out", fault.ErrSessionLost))
	if err := i.s.book.Close(ctx, nonce); err != nil {
		i.s.log.Warn("give up what else a session held", zap.Error(err))
	}
}
