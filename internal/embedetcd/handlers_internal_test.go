package embedetcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Members that are killed while clients log in, read and list do not take the
// process with them: calls that are under way end before the storage does.
func TestKillUnderCalls(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	cl, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, step := range []func() error{
		func() error { _, err := cl.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := cl.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := cl.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		life, stop := context.WithCancel(ctx)
		ended := make(chan struct{}, 8)
		logins := make(chan struct{}, 1000)
		for range cap(ended) {
			go func() {
				defer func() { ended <- struct{}{} }()
				for life.Err() == nil {
					if _, err := cl.Authenticate(life, "root", "secret"); err == nil {
						select {
						case logins <- struct{}{}:
						default:
						}
					}
				}
			}()
		}
		for range 20 {
			<-logins
		}
		c.members[0].Kill()
		stop()
		for range cap(ended) {
			<-ended
		}
		if err := c.members[0].Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHandlersEnd(t *testing.T) {
	t.Parallel()
	h := newHandlers()
	if !h.enter() {
		t.Fatal("a call was refused")
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.end()
	}()
	for h.enter() { // until end has begun
		h.leave()
	}
	select {
	case <-over:
		t.Error("it did not wait for a call")
	default:
	}
	h.leave()
	<-over
	if h.enter() {
		t.Error("a call came in")
	}
}
