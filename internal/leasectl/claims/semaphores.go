package claims

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
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
	s, err := etcdkv.NewStore(c.Client, c.Root, nil)
	if err != nil {
		return nil, err
	}
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
