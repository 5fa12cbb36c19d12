package claims

import (
	"context"
	"errors"
	"sync"
)

// Verdict is what came of one try to close a claim.
type Verdict int

const (
	// Applied: the claim is closed.
	Applied Verdict = iota
	// Refused: this try was certainly not applied, and the next would not be either.
	Refused
	// Fenced: this try was certainly not applied, since the claim is not current.
	Fenced
	// Unsure: the try may have been applied.
	Unsure
	// Again: the try was certainly not applied, and the next may be.
	Again
)

// Outcome is a verdict with its reason.
type Outcome struct {
	Verdict Verdict
	Err     error // nil only with Applied and Again
	// Fixed is closed once a try that is unsure can change nothing any more, or waiting
	// for that is no use; nil: there is nothing to wait for.
	Fixed <-chan struct{}
	// Loose, asked behind Fixed, tells that the try may change something yet. That the
	// claim is current proves nothing then. nil: it may not.
	Loose func() bool
}

// Way is one way out of a claim.
type Way struct {
	// Try builds the Txn anew, sends it once, and judges the answer.
	Try func(ctx context.Context) Outcome
	// Followed tells, after a try that was unsure, what followed the claim: Applied
	// when that is what a try of this way wrote, Fenced when it is somebody else's,
	// Refused when nothing did, since the claim is current, and Unsure when that can
	// not be read. The error says why, and is nil with Applied.
	Followed func(ctx context.Context) (Verdict, error)
	// Unknown makes the error of an outcome that cannot be found out.
	Unknown func(causes ...error) error
	// Over is called once the claim is closed, nil, or somebody else's, with why.
	Over func(err error)
	// GivesUp tells that its caller has no more use for the claim: once the caller has
	// left, and nothing was applied, the claim is a stray, not open.
	GivesUp bool
	// Reopen leaves the closer open for further calls when the claim is over: they are
	// refused by etcd, and leave their evidence.
	Reopen bool
}

// ErrSettled is what Close returns for a claim that an earlier call has closed.
var ErrSettled = errors.New("settled")

// Closer closes one claim. Safe for concurrent use.
type Closer struct {
	book   *Book // nil for a claim that another process made
	nonce  string
	behind func(func(ctx context.Context)) bool

	mu    sync.Mutex
	now   *attempt // under way
	over  bool
	taken error // over, since the claim was somebody else's
}

// attempt is one closing write under way. It goes on behind its caller.
type attempt struct {
	done chan struct{}
	err  error // valid once done is closed
	// deserted: a caller has left that gave the claim up, its own or one that waits
	// behind it. Under the closer's mu.
	deserted bool
}

// NewCloser returns the closer of a claim that stands in the book under that nonce; book
// may be nil. Behind runs what goes on behind a caller that has left; where it is false,
// the caller's ctx bounds its try.
func NewCloser(book *Book, nonce string, behind func(func(ctx context.Context)) bool) *Closer {
	return &Closer{book: book, nonce: nonce, behind: behind}
}

// Close takes one way out of the claim. Calls take their turns: one that finds another
// under way waits for it, and has its turn if that one was not applied. It returns when
// the outcome is known or ctx ends, and then the write goes on behind:
//
//   - nil: applied;
//   - the error of a Fenced outcome: the claim was somebody else's, then and ever after;
//   - [ErrSettled]: another call closed the claim;
//   - what Unknown makes: the outcome is not known, or not yet;
//   - the error of a Refused outcome: not applied, and the claim is open as before.
func (c *Closer) Close(ctx context.Context, w Way) error {
	for {
		a, mine, err := c.begin(ctx, w)
		if err != nil {
			return err
		}
		select {
		case <-a.done:
		default:
			select {
			case <-a.done:
			case <-ctx.Done():
				if c.leave(a, w) {
					return w.Unknown(context.Cause(ctx))
				}
			}
		}
		if mine {
			return a.err
		}
	}
}

// leave notes that the attempt goes on without a caller who asked for w. It is false when
// the attempt has just ended.
func (c *Closer) leave(a *attempt, w Way) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.deserted = a.deserted || w.GivesUp
	return c.now == a
}

// begin starts an attempt, or joins the one under way.
func (c *Closer) begin(ctx context.Context, w Way) (a *attempt, mine bool, err error) {
	c.mu.Lock()
	switch {
	case c.over && c.taken != nil:
		err = c.taken
	case c.over: //mutant:settle-once
		err = ErrSettled
	case c.now != nil:
		a = c.now
	}
	if a != nil || err != nil {
		c.mu.Unlock()
		return a, false, err
	}
	a = &attempt{done: make(chan struct{})}
	c.now = a
	c.mu.Unlock()
	c.tell(closes)
	if !c.behind(func(life context.Context) { c.finish(a, w, life, deserted) }) {
		c.finish(a, w, ctx, open)
	}
	return a, true, nil
}

// finish carries an attempt to its end, and says in the book what came of it; short is
// what an attempt comes to that the end of ctx cut short.
func (c *Closer) finish(a *attempt, w Way, ctx context.Context, short event) {
	var came event
	came, a.err = w.run(ctx)
	if came == open && ctx.Err() != nil {
		came = short
	}
	if came == closed {
		w.Over(a.err)
	}
	c.mu.Lock()
	c.now = nil
	if came == open && a.deserted { //mutant:given-up-behind
		came = deserted
	}
	c.tell(came) // before the next attempt can begin
	if came == closed && !w.Reopen {
		c.over, c.taken = true, a.err
	}
	c.mu.Unlock()
	close(a.done)
}

func (c *Closer) tell(ev event) {
	if c.book != nil {
		c.book.move(c.nonce, ev)
	}
}

// Busy tells whether a closing write is under way.
func (c *Closer) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now != nil
}

// Over tells whether the claim is closed, or another's: nothing is left to close.
func (c *Closer) Over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Wait waits for an attempt under way, if there is one, or until ctx ends, and returns
// the attempt's error.
func (c *Closer) Wait(ctx context.Context) error {
	c.mu.Lock()
	a := c.now
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// atOnce is how often a try that may be worth repeating is repeated without a pause: it
// lost a race, which means that another got on.
const atOnce = 5

// run tries until the outcome is known. An error of a try says nothing about the tries
// before it: where one of those is unsure, what followed the claim is read.
func (w Way) run(ctx context.Context) (came event, err error) {
	var doubt error
	loose := false
	for try := 0; ; try++ {
		o := w.Try(ctx)
		switch {
		case o.Verdict == Applied:
			return closed, nil
		case o.Verdict == Unsure:
			o.awaitFixed(ctx) //mutant:doubt-fixed
			doubt, loose = o.Err, loose || o.Loose != nil && o.Loose()
		case o.Verdict == Again:
		case doubt != nil: //mutant:close-in-doubt
			return w.read(ctx, doubt, o, loose)
		case o.Verdict == Fenced:
			return closed, o.Err
		default:
			return open, o.Err
		}
		if o.Verdict == Again && o.Err == nil && try < atOnce {
			continue
		}
		if perr := pause(ctx, max(0, try-atOnce)); perr != nil {
			if doubt != nil {
				return unknown, w.Unknown(doubt, perr)
			}
			return open, errors.Join(perr, o.Err)
		}
	}
}

// awaitFixed waits until what is unsure can change no more, as far as that can be waited
// for, or ctx ends.
func (o Outcome) awaitFixed(ctx context.Context) {
	if o.Fixed == nil {
		return
	}
	select {
	case <-o.Fixed:
	case <-ctx.Done():
	}
}

// read decides an outcome in doubt by what followed the claim; o is the last try's.
func (w Way) read(ctx context.Context, doubt error, o Outcome, loose bool) (came event, err error) {
	v, err := w.Followed(ctx)
	switch {
	case v == Applied:
		return closed, nil
	case v == Fenced:
		return closed, err
	case v == Refused && o.Verdict == Refused && !loose:
		return open, o.Err
	case o.Verdict == Fenced:
		return closed, w.Unknown(doubt, o.Err, err)
	}
	return unknown, w.Unknown(doubt, o.Err, err)
}
