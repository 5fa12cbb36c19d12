package claims

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/line"
)

var semaphoreNoun = claimNoun{
	noun: "semaphore", plural: "semaphores", owner: "OWNER", line: "WAITERS", held: "held", free: "free",
	state: permitState, states: line.SemaphoreStates, dir: "semaphores/", permits: true,
	claim: func(s *coord.Session, name string, permits int) holdable { return coord.NewSemaphore(s, name, permits) },
}

// NewSemaphores is leasectl semaphores.
func NewSemaphores(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "semaphores",
		Short: "Look at the permits of semaphores, hold one from a script, take one from its holder",
		Long: `Look at the permits of semaphores that are held, and at who waits, hold one step by
step from a script, and take one from a holder that does not give it back. A permit is named NAME/NUMBER, as -o name prints
it behind semaphore/; a slash in NAME is written %2F. How many permits there are is
known to the programs that use them: one that was given back does not show.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl semaphores ls
  leasectl semaphores get gpu -o json
  leasectl semaphores acquire gpu --permits 4 --session "$S" -o json   # leasectl help scripts
  leasectl semaphores release gpu/2 --force --reason "its host is gone"`,
		Aliases: []string{"semaphore"},
	}, newSemaphoresLs(a), newSemaphoresGet(a), newSemaphoresAcquire(a), newSemaphoresVerify(a), newSemaphoresRelease(a))
}

// permitPrefix is what -o name prints in front of NAME/NUMBER.
const permitPrefix = "semaphore/"

// permitRef names one permit: NAME/NUMBER.
type permitRef struct {
	name   string
	number int
}

func (r permitRef) text() string { return escape.Name(r.name, "/") + "/" + strconv.Itoa(r.number) }

// parsePermitRef reads NAME/NUMBER, also behind the noun, as cli.ParseJobRef does: %XX stands for a byte of the name, and a
// slash in it is %2F.
func parsePermitRef(arg string) (permitRef, error) {
	rest := arg
	if cut, ok := strings.CutPrefix(arg, permitPrefix); ok && strings.Contains(cut, "/") {
		rest = cut
	}
	name, number, ok := strings.Cut(rest, "/")
	n, err := strconv.Atoi(number)
	if !ok || name == "" || err != nil || n < 0 {
		return permitRef{}, exit.Usagef("leasectl semaphores ls -o name", "%q is not NAME/NUMBER of a permit", arg)
	}
	return permitRef{escape.Unname(name), n}, nil
}

// permitState reads one permit; one that nobody has is free.
func permitState(ctx context.Context, s *etcdkv.Store, arg string) (line.State, error) {
	ref, err := parsePermitRef(arg)
	if err != nil {
		return line.State{}, err
	}
	states, err := line.SemaphoreState(ctx, s, ref.name)
	if err != nil {
		return line.State{}, err
	}
	for _, st := range states {
		if st.Permit == ref.number {
			return st, nil
		}
	}
	return line.State{Name: ref.name, Permit: ref.number}, nil
}

// semaphoreName is the name that an argument says which names no permit, as get takes it.
func semaphoreName(arg string) string { return escape.Unname(strings.TrimPrefix(arg, permitPrefix)) }

// loadPermits reads the permits of one semaphore, or with NAME/NUMBER one of them.
func loadPermits(ctx context.Context, a *cli.App, c *connect.Conn, arg string) (items []Item, err error) {
	s := c.Store()
	ref, many := parsePermitRef(arg)
	if many != nil {
		ref.name = semaphoreName(arg)
	}
	states, err := line.SemaphoreState(ctx, s, ref.name)
	states = slices.DeleteFunc(states, func(st line.State) bool { return many == nil && st.Permit != ref.number })
	if err == nil && len(states) == 0 {
		err = &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("nobody has or waits for a permit of semaphore %q", arg), Try: "leasectl semaphores ls"}
	}
	for _, st := range states {
		items = append(items, semaphoreNoun.item(st))
	}
	return items, err
}

func newSemaphoresLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, semaphoreNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the permits of semaphores that are held or waited for",
		Long: `List the permits of semaphores that are held or waited for, one in a line. WAITERS
wait for any permit of that name. A permit whose STATE is orphan has a holder whose
session is gone: the next one who wants it gets it.`,
		Example: `  leasectl semaphores ls
  leasectl semaphores ls -o json`,
	})
}

func newSemaphoresGet(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "get SEMAPHORE",
		Short: "Show the permits of one semaphore, in JSON with all who wait",
		Long: `Show who holds the permits of a semaphore, and in JSON who waits for one, first in
line first. With NAME/NUMBER only that permit is shown. What is shown was confirmed by
a majority of etcd's members in this moment.`,
		Example: `  leasectl semaphores get gpu
  leasectl semaphores get gpu/0 -o json`,
		Args: cli.Takes("SEMAPHORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.RunList(cmd.Context(), a, o, cli.Lister[Item]{
				View:     semaphoreNoun.view(),
				Prefixes: semaphoreNoun.watched,
				Load: func(ctx context.Context, c *connect.Conn) ([]Item, error) {
					return loadPermits(ctx, a, c, args[0])
				},
			})
		},
	}
	o.AddFlags(cmd)
	return cmd
}

func newSemaphoresRelease(a *cli.App) *cobra.Command {
	cmd := newClaimRelease(a, semaphoreNoun, &cobra.Command{
		Use:   "release SEMAPHORE --token N | NAME/NUMBER --force",
		Short: "Give a permit back, or take it from its holder",
		Long: `Give a permit of a semaphore back, as its holder: --token and --nonce are what
semaphores acquire printed, and tell which permit it is. Exit code 5 means that it was
lost before.

With --force somebody else takes the permit NAME/NUMBER from its holder and gives it to
the first who waits, or to nobody. The holder may still be running; it is told, and no
write under its permit is accepted any more. What it does elsewhere nobody can stop:
look first whether it is gone.`,
		Example: `  leasectl semaphores release gpu --token 918201 --nonce 5f1c...
  leasectl semaphores release gpu/2 --force --reason "its host is gone"
  leasectl semaphores release gpu/2 --force --token 918201 --yes   # only this claim`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	return cmd
}

func newSemaphoresAcquire(a *cli.App) *cobra.Command {
	cmd := newClaimAcquire(a, semaphoreNoun, &cobra.Command{
		Use:   "acquire SEMAPHORE --permits N --session S",
		Short: "Acquire a permit of a semaphore for a session, from a script",
		Long: `Acquire a permit of a semaphore for a session, as locks acquire does a lock. --permits
is how many there are: all that use the name must agree on it. With --wait it stands in
line; else, and when that is over, the exit code is 124.`,
		Example: `  leasectl semaphores acquire gpu --permits 4 --session "$S" -o json
  leasectl semaphores acquire gpu --permits 4 --session "$S" --wait 1m -o json`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("permits") {
			return exit.Usagef("--permits N, the same wherever the semaphore is used", "%s--permits is missing", cli.VerbPrefix(cmd))
		}
		return run(cmd, args)
	}
	return cmd
}

func newSemaphoresVerify(a *cli.App) *cobra.Command {
	cmd := newClaimStep(a, claimStep{semaphoreNoun, "held", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify SEMAPHORE --token N",
		Short: "Prove that a permit is still held",
		Long: `Prove that a permit is still held under a token, in this moment: a majority of etcd's
members has said so, and the session was renewed. Exit code 5 means that it is not.
SEMAPHORE is its name, or NAME/NUMBER of the permit.`,
		Example: `  leasectl semaphores verify gpu --token 918201 --nonce 5f1c...`,
	})
	cmd.Args = cli.Takes("SEMAPHORE")
	return cmd
}
