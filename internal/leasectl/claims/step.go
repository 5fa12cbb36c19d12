package claims

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leasectl/sessions"
	"github.com/leasekit/leasekit/internal/line"
)

// acquiredItem is a claim that a script has made, in JSON. Token is a string: it may exceed what a JSON number keeps
// exactly.
type acquiredItem struct {
	Name    string `json:"name"`
	Permit  *int   `json:"permit,omitempty"` // its number, of semaphores
	Ref     string `json:"ref"`              // as the other commands take it
	Token   string `json:"token"`
	Nonce   string `json:"nonce"`
	Key     string `json:"key"` // whose mod revision is the token
	Session string `json:"session"`
}

func (n claimNoun) acquired(name, session string, h *coord.Hold) acquiredItem {
	item := acquiredItem{Name: name, Ref: escape.Ref(n.noun, name), Token: h.Token().String(), Nonce: h.Fence().Nonce, Key: h.Fence().Key, Session: session}
	if number, err := strconv.Atoi(h.Fence().Key[strings.LastIndexByte(h.Fence().Key, '/')+1:]); n.permits && err == nil {
		item.Permit, item.Ref = &number, permitPrefix+permitRef{name, number}.text()
	}
	return item
}

// newClaimAcquire completes the command that acquires a claim for a session, from a script.
func newClaimAcquire(a *cli.App, n claimNoun, cmd *cobra.Command) *cobra.Command {
	var session string
	o := underOptions{claimNoun: n}
	cmd.Args = cli.Takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := a.Format(output.JSON, output.Name)
		switch {
		case err != nil:
			return err
		case session == "":
			return exit.Usagef("S=$(leasectl session open) and --session \"$S\"", "--session is missing: a claim needs an owner that can be seen to live")
		case o.timeout < 0:
			return exit.Usagef("--wait 30s", "--wait is %v: it must not be negative", o.timeout)
		}
		name := args[0]
		if n.permits {
			name = semaphoreName(name)
		}
		if err := keyspace.ValidateName(n.noun, name); err != nil {
			return err
		}
		return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
			return sessions.Resume(cmd.Context(), a, c, session, func(ctx context.Context, s *coord.Session) error {
				o.until = time.Now().Add(o.timeout)
				if o.timeout > 0 {
					defer connect.WatchOver(ctx, c, a.Notef)()
				}
				o.claim = func(s *coord.Session, _ string, permits int) holdable { return n.claim(s, name, permits) }
				h, err := acquire(ctx, a, s, args[0], &o)
				if err != nil {
					return err
				}
				item := n.acquired(name, session, h)
				if format == output.Name {
					return a.PrintLine(item.Ref)
				}
				return output.PrintJSON(a.Out, item)
			})
		})
	}
	cmd.Flags().StringVar(&session, "session", "", "acquire for session `S`, as session open printed it")
	cmd.Flags().DurationVar(&o.timeout, "wait", 0, "wait in line for up to `TIME`")
	if n.permits {
		cmd.Flags().IntVar(&o.permits, "permits", 0, "the semaphore has `N` permits, as all agree that use it")
	}
	return cli.Writes(cmd)
}

// claimStep is one thing that the owner of a claim does with it, in a process of its own.
type claimStep struct {
	claimNoun
	past string
	do   func(*coord.Hold, context.Context) error
}

// newClaimStep completes the command of a step.
func newClaimStep(a *cli.App, step claimStep, cmd *cobra.Command) *cobra.Command {
	var o cli.Proof
	cmd.Args = cli.Takes("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := o.Parse(step.plural + " acquire")
		if err != nil {
			return err
		}
		return runClaimStep(cmd.Context(), a, step, args[0], token, o.Nonce)
	}
	o.AddFlags(cmd.Flags())
	return cli.Writes(cmd)
}

// claimSteppedItem is what such a step prints as JSON.
type claimSteppedItem struct {
	Name    string `json:"name"`
	Token   string `json:"token"`
	Outcome string `json:"outcome"`
}

// runClaimStep finds the session in the claim itself, so that the token and the nonce are all that a script must keep.
func runClaimStep(ctx context.Context, a *cli.App, step claimStep, name string, token coord.Token, nonce string) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		store := c.Store()
		bounded, cancel := a.Bounded(ctx)
		defer cancel()
		st, err := step.find(store, bounded, name, token)
		switch {
		case err != nil:
			return err
		case st.Owner == "" || coord.Token(st.Token) != token:
			return fmt.Errorf("%s: %w", step.ref(name), &coord.FencedError{Key: st.Key, Wanted: token, Current: coord.Token(st.Token)})
		}
		return sessions.Resume(ctx, a, c, st.Owner, func(ctx context.Context, s *coord.Session) error {
			ctx, cancel := a.Bounded(ctx)
			defer cancel()
			h, err := step.claim(s, st.Name, st.Permit+1).ResumeClaim(ctx, token, nonce)
			if err == nil {
				err = step.do(h, ctx)
			}
			if err != nil {
				return err
			}
			return a.PrintDone(format, claimSteppedItem{name, token.String(), step.past}, step.ref(name), step.ref(name)+" "+step.past)
		})
	})
}

// find reads the claim of a token: a permit is known by its token too, whatever its number.
func (n claimNoun) find(s *etcdkv.Store, ctx context.Context, arg string, token coord.Token) (st line.State, err error) {
	if _, err := parsePermitRef(arg); !n.permits || err == nil {
		return n.state(ctx, s, arg)
	}
	states, err := line.SemaphoreState(ctx, s, semaphoreName(arg))
	for _, st = range states {
		if coord.Token(st.Token) == token {
			break
		}
	}
	st.Key = cmp.Or(st.Key, n.ref(arg))
	return st, err
}
