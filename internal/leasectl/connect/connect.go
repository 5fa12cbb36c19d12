// Package connect is where and how leasectl reaches etcd: the global settings, the client that has answered, and what is
// wrong where none does.
package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/workqueue"
)

// Conn is an etcd client that has answered, and what children and libraries need to reach the same place.
type Conn struct {
	*clientv3.Client
	Endpoints []string
	Root      string
	Context   string // its name, if there is one

	// silence finds out why no endpoint answers, in about a second.
	silence func(context.Context) string
}

// Where names the target of a change, for whoever is about to make it.
func (c *Conn) Where() string {
	at := c.Endpoints[0] + " root " + c.Root
	if c.Context != "" {
		return "context " + c.Context + " (" + at + ")"
	}
	return at
}

// Store is a new store of the root, which Open has checked. Each knows of etcd's history what it has read itself.
func (c *Conn) Store() *etcdkv.Store {
	s, err := etcdkv.NewStore(c.Client, c.Root, nil)
	if err != nil {
		panic(err)
	}
	return s
}

// Queues are all queues under the root, to look at.
func (c *Conn) Queues() workqueue.Queues {
	return workqueue.Queues{Client: c.Client, Root: c.Root}
}

// closeWithin bounds the wait for a client to close. Client v3.7.3 can hang there for ever: when the server refuses several
// watches of one stream at once, as with a login that has run out, the stream waits for a reader that is gone.
const closeWithin = time.Second

// Close closes the client. One that hangs is left to the end of the process.
func (c *Conn) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- c.Client.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeWithin):
		return errors.New("the etcd client does not close")
	}
}

// Open returns a client of the target that has answered. It returns, with an answer or with the reason of each endpoint,
// within the dial timeout. The client outlives ctx.
func Open(ctx context.Context, t *Target) (*Conn, error) {
	if _, err := keyspace.New(t.Root); err != nil {
		return nil, err
	}
	client, err := Dial(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return &Conn{Client: client, Endpoints: t.Endpoints, Root: t.Root, Context: t.Context, silence: t.silence}, nil
}

// diagnoseAfter is how long a connection may take before its endpoints are examined beside it. A healthy etcd is faster,
// so a healthy command costs no examination.
const diagnoseAfter = 250 * time.Millisecond

// Dial makes the client and, when it does not answer at once, finds out why. An endpoint that is certain not to answer
// is not waited for.
func Dial(parent context.Context, t *Target) (*clientv3.Client, error) {
	ctx, cancel := context.WithTimeout(parent, budget(t.Timeout))
	defer cancel()
	examining, enough := context.WithCancel(ctx)
	defer enough()
	attempt := startAttempt(ctx, t, enough)
	timer := time.NewTimer(diagnoseAfter)
	defer timer.Stop()
	select {
	case <-attempt.done:
		if attempt.err == nil || isDefinite(attempt.err) {
			return attempt.client, attempt.err
		}
	case <-timer.C:
	}

	findings := diagnose(examining, t)
	if findings.hopeless() {
		attempt.giveUp()
	} // else somebody is there: the attempt has the rest of the time
	<-attempt.done
	switch {
	case attempt.err == nil || isDefinite(attempt.err):
		return attempt.client, attempt.err
	case parent.Err() != nil:
		return nil, context.Cause(parent)
	default:
		return nil, findings.failure(budget(t.Timeout))
	}
}

// budget is what the connection may use of the dial timeout: the rest is for starting up and for saying what happened.
func budget(timeout time.Duration) time.Duration {
	return timeout - min(timeout/10, 500*time.Millisecond)
}

// isDefinite tells the answer of a server, which repeating cannot change, from the lack of one.
func isDefinite(err error) bool {
	var e rpctypes.EtcdError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	default:
		return true
	}
}

// attempt is one try to connect in the background.
type attempt struct {
	giveUp context.CancelFunc
	done   chan struct{}    // closed when the goroutine is gone; then client or err is set
	client *clientv3.Client // nil when err is not; not touched by giveUp any more
	err    error
}

// startAttempt starts to connect, and calls succeeded when it has. ctx bounds the attempt, not the client. The caller
// must wait for done.
func startAttempt(ctx context.Context, t *Target, succeeded func()) *attempt {
	// The client logs in inside New, which only its own context and the dial timeout can end.
	base, closeBase := context.WithCancel(context.WithoutCancel(ctx))
	ctx, giveUp := context.WithCancel(ctx)
	unlink := context.AfterFunc(ctx, closeBase)
	a := &attempt{giveUp: giveUp, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer giveUp()
		a.client, a.err = NewClient(ctx, base, t)
		if !unlink() && a.err == nil { // given up at the last moment: the client's context has ended
			_ = a.client.Close()
			a.client, a.err = nil, ctx.Err()
		}
		if a.err != nil {
			closeBase()
			return
		}
		succeeded()
	}()
	return a
}

// NewClient makes a client under base that has answered before ctx ends.
func NewClient(ctx, base context.Context, t *Target) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Context:     base,
		Endpoints:   t.Endpoints,
		TLS:         t.TLS,
		DialOptions: t.dialOptions(),
		Username:    t.User,
		Password:    t.Password,
		DialTimeout: t.Timeout,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	// A linearizable read proves a leader with a quorum, not just a process that listens. A user who may not read this
	// key has been answered as well; what he may do, the verb will find out.
	_, err = client.Get(ctx, t.Root+"meta", clientv3.WithKeysOnly())
	if err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		_ = client.Close() // the error that counts is the read's
		return nil, err
	}
	return client, nil
}
