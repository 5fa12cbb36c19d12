package election

import (
	"context"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/line"
)

// Status is what an observer knows.
type Status string

const (
	// Leader: a live session leads.
	Leader Status = "leader"
	// None: nobody leads, or the leader's session is gone.
	None Status = "none"
	// Unknown: etcd could not tell lately. It never means that nobody leads.
	Unknown Status = "unknown"
)

// State is what an observer saw.
type State struct {
	// Status says whether there is a leader.
	Status Status
	// Session is the leader's, and Token its term's; empty unless Status is Leader.
	Session string
	// Token is the term's.
	Token coord.Token
	// AsOf is when etcd last confirmed it, by this process's clock: the age of the
	// knowledge is time.Since(AsOf).
	AsOf time.Time
}

// same tells whether b says nothing new.
func (s State) same(b State) bool {
	return s.Status == b.Status && s.Session == b.Session && s.Token == b.Token
}

const (
	// confirmEvery is how often an observer asks etcd although nothing changed.
	confirmEvery = 5 * time.Second
	// unknownAfter is the age at which knowledge becomes Unknown.
	unknownAfter = 12 * time.Second
)

// Observe tells who leads, now and at every change: leader and owner's session
// are read together and both watched, so a leader whose session is gone is None at
// once. A receiver that is slow sees the latest state, not each. The channel is
// never closed before ctx ends, whatever happens to etcd: trouble shows as Unknown.
func (e *Elector) Observe(ctx context.Context) <-chan State {
	out := make(chan State)
	o := &observer{store: e.store, name: e.cfg.Name, out: out}
	go func() {
		defer close(out)
		o.run(ctx)
	}()
	return out
}

// observer is one Observe under way.
type observer struct {
	store *etcdkv.Store
	name  string
	out   chan<- State
	told  *State
}

func (o *observer) run(ctx context.Context) {
	last := State{Status: Unknown}
	for try := 0; ctx.Err() == nil; {
		asked := time.Now()
		st, err := line.LeadershipState(ctx, o.store, o.name)
		switch {
		case err == nil:
			try = 0
			last = stateOf(st, asked)
		case time.Since(last.AsOf) > unknownAfter:
			last = State{Status: Unknown, AsOf: last.AsOf} //mutant:observer-unknown
		}
		changed, stop := o.watch(ctx, st, err == nil)
		wait := confirmEvery
		if err != nil {
			wait = min(100*time.Millisecond<<min(try, 5), confirmEvery)
			try++ //mutant:observer-open
		}
		o.tell(ctx, last, changed, wait)
		stop()
	}
}

// stateOf judges a claim's state, as it was or became since it was asked for.
func stateOf(st line.State, asked time.Time) State {
	if st.Owner == "" || /*mutant:observer-owner-gone*/ st.OwnerGone {
		return State{Status: None, AsOf: asked}
	}
	return State{Status: Leader, Session: st.Owner, Token: coord.Token(st.Token), AsOf: asked}
}

// watch returns a channel that is closed when the leader's key or its owner's
// session may have changed behind what was read, and a function that joins it.
func (o *observer) watch(ctx context.Context, st line.State, ok bool) (<-chan struct{}, func()) {
	changed := make(chan struct{})
	if !ok {
		return changed, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	keys := []string{st.Key}
	if st.Owner != "" {
		keys = append(keys, o.store.Keys().Session(st.Owner))
	}
	go func() {
		defer close(changed)
		// Why it ended is not asked: the next read tells.
		_ = o.store.AwaitChange(ctx, st.Revision+1, keys...)
	}()
	return changed, func() {
		cancel()
		<-changed
	}
}

// tell offers what is new until something changed or wait is over.
func (o *observer) tell(ctx context.Context, s State, changed <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	out := o.out
	if o.told != nil && o.told.same(s) {
		out = nil
	}
	for {
		select {
		case out <- s:
			o.told, out = &s, nil
		case <-changed:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
