// Package claims has the verbs about locks, semaphores and elections: what is held under a name, by whom, and who waits.
package claims

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/inside"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/line"
)

// claimNoun is what locks, elections and semaphores have in common: claims under a name, and who waits for them.
type claimNoun struct {
	noun, plural string
	owner, line  string // the headings of who has it and of who waits
	held, free   string // the states
	state        func(context.Context, *etcdkv.Store, string) (line.State, error)
	states       func(context.Context, *etcdkv.Store) ([]line.State, error)
	claim        func(s *coord.Session, name string, permits int) holdable
	dir          string // under the root, where its keys are
	permits      bool   // a name has several claims, by number
}

// holdable is what a session can hold: a lock, a leadership, or a permit.
type holdable interface {
	Acquire(context.Context) (*coord.Hold, error)
	TryAcquire(context.Context) (*coord.Hold, error)
	ResumeClaim(context.Context, coord.Token, string) (*coord.Hold, error)
}

var (
	lockNoun = claimNoun{
		noun: "lock", plural: "locks", owner: "OWNER", line: "WAITERS", held: "held", free: "free",
		state: line.LockState, states: line.LockStates, dir: "locks/",
		claim: func(s *coord.Session, name string, _ int) holdable { return coord.NewLock(s, name) },
	}
	electionNoun = claimNoun{
		noun: "election", plural: "elections", owner: "LEADER", line: "CANDIDATES", held: "leader", free: "none",
		state: line.LeadershipState, states: line.ElectionStates, dir: "elections/",
		claim: func(s *coord.Session, name string, _ int) holdable {
			return inside.Of(s).Leadership(name).(*coord.Lock)
		},
	}
)

// Item is a lock, an election or a permit in JSON. Tokens and revisions are strings: they may exceed what a JSON number keeps
// exactly.
type Item struct {
	Name     string    `json:"name"`
	Permit   *int      `json:"permit,omitempty"` // its number, of semaphores
	State    string    `json:"state"`
	Owner    string    `json:"owner"`      // session; empty when there is none
	Token    string    `json:"token"`      // empty when there is no owner
	Gone     bool      `json:"owner_gone"` // its session is: the claim can be taken
	Since    time.Time `json:"since,omitzero"`
	Waiters  []string  `json:"waiters"` // sessions, first in line first
	Key      string    `json:"key"`
	ForcedBy string    `json:"forced_by,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Revision string    `json:"revision"`
}

func (n claimNoun) item(st line.State) Item {
	item := Item{
		Name: st.Name, State: n.free, Owner: st.Owner, Gone: st.OwnerGone, Since: st.Since, Waiters: st.Waiters, Key: st.Key,
		ForcedBy: st.ForcedBy, Reason: st.Reason, Revision: strconv.FormatInt(st.Revision, 10),
	}
	if n.permits {
		item.Permit = &st.Permit
	}
	if st.Owner != "" {
		item.Token = coord.Token(st.Token).String()
		item.State = n.held
	}
	if st.OwnerGone {
		item.State = "orphan"
	}
	if item.Waiters == nil {
		item.Waiters = []string{}
	}
	return item
}

// ref is what -o name prints of what the verbs take as arg.
func (n claimNoun) ref(arg string) string {
	if !n.permits {
		return escape.Ref(n.noun, arg)
	}
	if permit, err := parsePermitRef(arg); err == nil {
		return permitPrefix + permit.text()
	}
	return permitPrefix + escape.Name(semaphoreName(arg), "/")
}

// cell is a name in a table, as get takes it.
func (n claimNoun) cell(name string) string {
	if _, err := parsePermitRef(name); n.permits && err == nil { // it looks like a permit
		return escape.Name(name, "/")
	}
	return escape.NameCell(n.noun, name)
}

func (n claimNoun) view() output.View[Item] {
	v := output.View[Item]{
		Name: func(i Item) string { return n.ref(i.arg()) },
		Columns: []output.Column[Item]{
			{Head: "NAME", Cell: func(i Item) string { return n.cell(i.Name) }},
			{Head: "STATE", Cell: func(i Item) string { return i.State }},
			{Head: n.owner, Cell: func(i Item) string { return escape.WordCell(i.Owner) }},
			{Head: "TOKEN", Cell: func(i Item) string { return i.Token }},
			{Head: n.line, Cell: func(i Item) string { return strconv.Itoa(len(i.Waiters)) }},
			{Head: "AGE", Cell: func(i Item) string {
				if i.Since.IsZero() || i.Owner == "" {
					return ""
				}
				return output.Age(time.Since(i.Since))
			}},
		},
	}
	if n.permits {
		v.Columns = slices.Insert(v.Columns, 1, output.Column[Item]{Head: "PERMIT", Cell: func(i Item) string { return strconv.Itoa(*i.Permit) }})
	}
	return v
}

// arg is how the verbs take the name.
func (i Item) arg() string {
	if i.Permit == nil {
		return i.Name
	}
	return permitRef{i.Name, *i.Permit}.text()
}

// readClaim reads a claim that must exist: held, waited for, or freed by force.
func readClaim(ctx context.Context, a *cli.App, s *etcdkv.Store, n claimNoun, name string) (line.State, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	st, err := n.state(ctx, s, name)
	if err == nil && st.Owner == "" && len(st.Waiters) == 0 && st.ForcedBy == "" {
		return st, &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("nobody has or waits for %s %q", n.noun, name), Try: "leasectl " + n.plural + " ls"}
	}
	return st, err
}

func newClaimsLs(a *cli.App, n claimNoun, cmd *cobra.Command) *cobra.Command {
	return cli.NewList(a, cmd, cli.Lister[Item]{
		View:     n.view(),
		Prefixes: n.watched,
		Load: func(ctx context.Context, c *connect.Conn) ([]Item, error) {
			return listClaims(ctx, a, c.Store(), n)
		},
	})
}

// Elections lists the elections that somebody leads or stands for.
func Elections(ctx context.Context, a *cli.App, s *etcdkv.Store) ([]Item, error) {
	return listClaims(ctx, a, s, electionNoun)
}

func listClaims(ctx context.Context, a *cli.App, s *etcdkv.Store, n claimNoun) ([]Item, error) {
	states, err := n.states(ctx, s)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, st := range states {
		if a.Usable(n.noun, st.Name) {
			items = append(items, n.item(st))
		}
	}
	return items, nil
}

func newClaimsGet(a *cli.App, n claimNoun, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Takes("NAME")
	var o cli.ListOptions
	o.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return cli.RunItem(cmd.Context(), a, o, cli.Lister[Item]{
			View:     n.view(),
			Prefixes: n.watched,
			Load: func(ctx context.Context, c *connect.Conn) ([]Item, error) {
				st, err := readClaim(ctx, a, c.Store(), n, args[0])
				return []Item{n.item(st)}, err
			},
		})
	}
	return cmd
}

// watched are the keys that can change what is shown: the claims themselves, and the sessions that hold them.
func (n claimNoun) watched(keys keyspace.Keyspace) []string {
	return []string{keys.Root() + n.dir, keys.Sessions()}
}
