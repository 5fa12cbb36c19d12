// Package inside is what Leasekit's own packages see of a session and of a term, and what
// users do not: public types reach each other's machinery through it. Packages coord and
// election serve it as they are initialised.
package inside

import (
	"context"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/lane"
)

// Session is the machinery of a session. Safe for concurrent use.
type Session interface {
	// Store is the store that the session writes to.
	Store() *etcdkv.Store
	// Committer is what the session's claims and commits travel with. It outlives the
	// session's loss, so that claims can be given up under their fences, and ends with
	// Close.
	Committer() *lane.Committer
	// Book is the session's book of claims, where whoever claims enters it.
	Book() *claims.Book
	// CreateRevision is the revision at which the session's key was created. Records that
	// name the session as owner hold it too.
	CreateRevision() int64
	// Leadership is the leadership of an election as a lock, a *coord.Lock: the claim on
	// which package election stands. Its waiters are the election's candidates.
	Leadership(name string) any
	// Track enters a claim in the book before it is made. The error is the session's own
	// when it is over: then nothing may be claimed; it matches claims.ErrTaken when the
	// nonce is in the book already.
	Track(nonce string, end claims.End) error
	// Keep says that a claim was made; end is how to give it up from now on. The error is
	// the session's own when it is over: then no work may start on it, and it must be
	// given up.
	Keep(nonce string, end claims.End) error
	// Behind runs f in the background until the session is closed, which waits for it and
	// ends its ctx when its own time is over. It is false when that is too late.
	Behind(f func(ctx context.Context)) bool
	// LetLapse ends the session for the sake of one claim that must not be given up, since
	// its work does not stop: releasing it would let the next owner start beside it. What
	// else the session holds is given up first, bounded by ctx; then the session is
	// renewed no more, and the claim of that nonce becomes an orphan when the lease runs out. Close
	// afterwards, once the lease is over, frees what the session holds in this process.
	LetLapse(ctx context.Context, nonce string)
}

var (
	sessionOf   func(public any) Session
	committerOf func(term any) *lane.Committer
)

// Of is the inside of a *coord.Session.
func Of(public any) Session { return sessionOf(public) }

// OfTerm is what the commits of an *election.Term travel with.
func OfTerm(term any) *lane.Committer { return committerOf(term) }

// ServeSessions is called by package coord, once.
func ServeSessions(of func(public any) Session) { sessionOf = of }

// ServeTerms is called by package election, once.
func ServeTerms(of func(term any) *lane.Committer) { committerOf = of }
