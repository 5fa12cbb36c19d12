package connect

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

const (
	// silentFor is how long etcd may give no sign of life before somebody who waits is told.
	silentFor = 5 * time.Second
	vigilRest = time.Second
)

// vigil asks etcd for a sign of life while something waits for what etcd will say, and tells once when there is none for a
// while, and once when it is back: a watch of an etcd that is away looks like one of an etcd where nothing happens.
type vigil struct {
	where func(context.Context) string // etcd is, and what is wrong there
	ask   func(context.Context) error  // an error that etcd itself gave is a sign of life too
	tell  func(format string, args ...any)

	// refused ends the vigil when the login is refused again and again, as after the password was changed: only another
	// process can log in anew. Nil: that is a sign of life like any answer.
	refused func(error)
}

// refusals is how many in a row it takes: a member that lags behind may refuse one.
const refusals = 3

// WatchOver keeps a vigil until ctx ends or the returned function is called, which waits for its end.
func WatchOver(ctx context.Context, c *Conn, tell func(format string, args ...any)) (stop func()) {
	return WatchLogin(ctx, c, tell, nil)
}

// WatchLogin is WatchOver that also tells, once, that etcd takes the login no more.
func WatchLogin(ctx context.Context, c *Conn, tell func(format string, args ...any), refused func(error)) (stop func()) {
	v := vigil{where: c.silence, tell: tell, refused: refused, ask: func(ctx context.Context) error {
		_, err := c.Get(ctx, c.Root+"meta", clientv3.WithKeysOnly())
		return err
	}}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { v.keep(ctx) })
	return func() {
		cancel()
		wait.Wait()
	}
}

// keep blocks until ctx ends.
func (v vigil) keep(ctx context.Context) {
	rest := time.NewTicker(vigilRest)
	defer rest.Stop()
	alive, told := time.Now(), false
	for refused := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		asking, cancel := context.WithDeadline(ctx, later(alive.Add(silentFor), time.Now().Add(vigilRest)))
		err := v.ask(asking)
		cancel()
		silent := time.Since(alive)
		if refused++; !exit.EtcdIs(rpctypes.ErrAuthFailed)(err) || v.refused == nil {
			refused = 0
		}
		if refused == refusals {
			v.refused(err)
			return
		}
		switch {
		case ctx.Err() != nil:
			return
		case exit.Code(err) != exit.Unreachable:
			if told {
				v.tell("etcd answers again, after %s", output.Age(silent))
			}
			alive, told = time.Now(), false
		case silent >= silentFor && !told:
			v.tell("no answer from etcd for %s, waiting for it: %s", output.Age(silent), v.where(ctx))
			told = true
		}
	}
}

// WentBack is what is told when etcd's history went back.
const WentBack = "etcd's history went back, as after a restore from a backup"

// TellRewinds tells each time that history is seen to have gone back, until ctx ends.
func TellRewinds(ctx context.Context, store *etcdkv.Store, tell func(format string, args ...any)) {
	for rewound := store.Rewound(); ; rewound = store.Rewound() {
		select {
		case <-ctx.Done():
			return
		case <-rewound:
			tell(WentBack + ": reading all again")
		}
	}
}

// silence says of each endpoint what is wrong there.
func (t *Target) silence(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var causes []string
	for _, f := range diagnose(ctx, t) {
		cause := f.Cause
		if cause == "" {
			cause = "accepts connections, but does not answer"
		}
		causes = append(causes, f.endpoint+": "+cause)
	}
	return strings.Join(causes, ", ")
}

// Outlast returns nil when a wait goes on after an error, and the error that it ends with otherwise. A wait that has begun
// goes on while etcd gives no answer, of which the vigil tells; outlast rests before it says so. It goes on too when
// history went back: what etcd has now is read next. over ends the wait.
func Outlast(ctx context.Context, begun bool, over <-chan time.Time, err error) error {
	if errors.Is(err, coord.ErrHistoryRewound) {
		return nil
	}
	if !begun || exit.Code(err) != exit.Unreachable {
		return OrUnread(ctx, err)
	}
	rest := time.NewTimer(vigilRest)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return err
	case <-rest.C:
		return nil
	}
}

// OrUnread is err, unless nobody reads what the command prints any more: whatever that broke off is no error.
func OrUnread(ctx context.Context, err error) error {
	var unread *exit.Ended
	if err != nil && errors.As(context.Cause(ctx), &unread) {
		return unread
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
