package claims

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

var (
	// ErrOver is what Track and Hold return when the book is closed.
	ErrOver = errors.New("the session's book is closed")
	// ErrTaken is what Track returns for a claim that is in the book already.
	ErrTaken = errors.New("it is in the session's book already")
)

// End gives a claim up that no caller is left for, or finds that there is none. It
// returns nil once etcd shows nothing of it any more, and is called again after an
// error, as long as the session lives. It must return when ctx ends.
type End func(ctx context.Context) error

// Book is the claims of one session that this process has made or may have made, by
// their nonces. Create it with [NewBook]. Safe for concurrent use.
type Book struct {
	behind func(func(ctx context.Context)) bool
	report func(nonce string, err error)

	mu      sync.Mutex
	claims  map[string]*entry
	closed  bool
	drained chan struct{} // somebody waits for the last claim to go
	decided chan struct{} // Leave waits until no claim is being made
}

// entry is one claim.
type entry struct {
	state   state
	end     End
	trouble error // why the reconciler could not end it yet
}

// NewBook returns an empty book. Behind runs a function in the background for as long
// as the session can write, and is false when it no longer does; report is told of
// what the reconciler cannot end, once for each claim.
func NewBook(behind func(func(ctx context.Context)) bool, report func(nonce string, err error)) *Book {
	return &Book{behind: behind, report: report, claims: map[string]*entry{}}
}

// Track enters a claim before its Txn is sent. After [ErrOver] nothing may be claimed,
// and after [ErrTaken] not under that name.
func (b *Book) Track(nonce string, end End) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { //mutant:claim-after-close
		return ErrOver
	}
	if b.claims[nonce] != nil {
		return ErrTaken
	}
	b.claims[nonce] = &entry{state: claiming, end: end}
	return nil
}

// Hold says that the claim was made; end is how to give it up from now on. A claim that
// was not tracked, since another process made it for the session, is entered as held.
// After [ErrOver] the claim must be given up.
func (b *Book) Hold(nonce string, end End) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { //mutant:hold-after-close
		return ErrOver
	}
	e := b.claims[nonce]
	if e == nil {
		e = &entry{state: claiming}
		b.claims[nonce] = e
	}
	e.end, e.state = end, e.state.after(made)
	b.decide()
	return nil
}

// Untrack takes a claim out: it was never made, or is over.
func (b *Book) Untrack(nonce string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(nonce)
}

// Replace changes how a claim is ended. It is false when the claim is out.
func (b *Book) Replace(nonce string, end End) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.claims[nonce]
	if e != nil {
		e.end = end
	}
	return e != nil
}

// Settle leaves a claim to the reconciler: its caller has gone, or does not know what
// became of it. False means that the session can write no more: its lease ends the
// claim.
func (b *Book) Settle(nonce string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settle(nonce, deserted)
}

// settle is called with mu held.
func (b *Book) settle(nonce string, why event) bool {
	e := b.claims[nonce]
	if e == nil || e.state == stray {
		return e != nil
	}
	e.state = e.state.after(why)
	b.decide()
	if !b.behind(func(ctx context.Context) { b.reconcile(ctx, nonce, e) }) {
		b.remove(nonce)
		return false
	}
	return true
}

// Has tells whether a claim is in the book.
func (b *Book) Has(nonce string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[nonce] != nil
}

// Stray tells whether the reconciler has the claim.
func (b *Book) Stray(nonce string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.claims[nonce]
	return e != nil && e.state == stray
}

// reconcile ends a stray, however often that has to be tried.
func (b *Book) reconcile(ctx context.Context, nonce string, e *entry) {
	for try := 0; ; try++ {
		b.mu.Lock()
		mine, end := b.claims[nonce] == e, e.end
		b.mu.Unlock()
		if !mine {
			return
		}
		err := end(ctx)
		b.mu.Lock()
		first := err != nil && e.trouble == nil
		if e.trouble = err; err == nil && b.claims[nonce] == e {
			b.remove(nonce)
		}
		b.mu.Unlock()
		if err == nil { //mutant:stray-retried
			return
		}
		if first {
			b.report(nonce, err)
		}
		if pause(ctx, try) != nil {
			return
		}
	}
}

// move tells the book what happens to a claim. It is false when the claim is out.
func (b *Book) move(nonce string, ev event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.claims[nonce]
	switch {
	case e == nil:
	case e.state.after(ev) == over:
		b.remove(nonce)
	case e.state.after(ev) == stray:
		b.settle(nonce, ev)
	default:
		e.state = e.state.after(ev)
	}
}

// remove is called with mu held.
func (b *Book) remove(nonce string) {
	delete(b.claims, nonce)
	b.decide()
	if b.drained != nil && len(b.claims) == 0 {
		close(b.drained)
		b.drained = nil
	}
}

// Len is how many claims the book has.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.claims)
}

// Trouble is why a stray could not be ended yet, nil where there is none.
func (b *Book) Trouble() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.claims {
		if e.trouble != nil {
			return e.trouble
		}
	}
	return nil
}

// Drained is closed once the book has no claim.
func (b *Book) Drained() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drained == nil {
		b.drained = make(chan struct{})
	}
	drained := b.drained
	if len(b.claims) == 0 {
		close(b.drained)
		b.drained = nil
	}
	return drained
}

// Close refuses new claims and ends those that are there, all at once, but for those
// that their callers are still making: they hear of it themselves. Except is a claim
// that stays in the book, since the session's lease is to end it; "" is none. It returns
// what could not be ended.
func (b *Book) Close(ctx context.Context, except string) error {
	err := endAll(ctx, b.shut(func(nonce string, s state) bool {
		return /*mutant:close-leaves-claiming*/ s != claiming && nonce != except
	}))
	b.leave(except)
	return err
}

// Leave refuses new claims, waits until none is being made, and ends the strays, which
// no other process knows: the session goes on elsewhere, with what is held. It returns what could not be ended; the session's lease will.
func (b *Book) Leave(ctx context.Context) error {
	select {
	case <-b.made():
	case <-ctx.Done():
	}
	err := endAll(ctx, b.shut(func(_ string, s state) bool { return s == stray }))
	b.leave("")
	return err
}

// made refuses new claims, and is closed once none is being made.
func (b *Book) made() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	decided := make(chan struct{})
	b.decided = decided
	b.decide()
	return decided
}

// decide tells Leave when no claim is being made. Called with mu held.
func (b *Book) decide() {
	if b.decided == nil {
		return
	}
	for _, e := range b.claims {
		if e.state == claiming {
			return
		}
	}
	close(b.decided)
	b.decided = nil
}

// shut refuses new claims, and returns how to end those that are wanted.
func (b *Book) shut(wanted func(nonce string, s state) bool) (ends []End) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for nonce, e := range b.claims {
		if wanted(nonce, e.state) {
			ends = append(ends, e.end)
		}
	}
	return ends
}

func endAll(ctx context.Context, ends []End) (errs error) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, end := range ends {
		wg.Go(func() {
			if err := end(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = errors.Join(errs, err)
			}
		})
	}
	wg.Wait()
	return errs
}

// leave takes out what the session's lease is to end, or the session's further life.
func (b *Book) leave(except string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for nonce := range b.claims {
		if nonce != except {
			b.remove(nonce)
		}
	}
}

// pause waits before try number try+2: 50 ms doubling to 2 s, with jitter, or until ctx
// ends.
func pause(ctx context.Context, try int) error {
	d := min(50*time.Millisecond<<min(try, 6), 2*time.Second)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
