package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// NewLocks is leasectl locks.
func NewLocks(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "locks",
		Short: "Look at locks, hold one from a script, take one from its holder",
		Long: `Look at the locks that are held or waited for, hold one step by step from a script,
and take one from a holder that does not give it back. To hold one while a command
runs, see leasectl lock. NAME may also be lock/NAME, as -o name prints it.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl locks ls
  leasectl locks get deploy -o json
  leasectl locks acquire deploy --session "$S" --wait 1m -o json   # leasectl help scripts
  leasectl locks release deploy --force --reason "its host is gone"`,
	}, cli.TakesBack(lockNoun.noun, newLocksLs(a), newLocksGet(a), newLocksAcquire(a), newLocksVerify(a), newLocksRelease(a))...)
}

func newLocksLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, lockNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the locks that are held or waited for",
		Long: `List the locks that are held or waited for. A lock whose STATE is orphan has a
holder whose session is gone: the next one who wants it gets it.`,
		Example: `  leasectl locks ls
  leasectl locks ls -o json`,
	})
}

func newLocksGet(a *cli.App) *cobra.Command {
	return newClaimsGet(a, lockNoun, &cobra.Command{
		Use:   "get NAME",
		Short: "Show one lock, in JSON with all who wait for it",
		Long: `Show who holds a lock, and in JSON who waits for it, first in line first. What is
shown was confirmed by a majority of etcd's members in this moment.`,
		Example: `  leasectl locks get deploy
  leasectl locks get deploy -o json`,
	})
}

func newLocksRelease(a *cli.App) *cobra.Command {
	return newClaimRelease(a, lockNoun, &cobra.Command{
		Use:   "release NAME --token N | --force",
		Short: "Give a lock back, or take it from its holder",
		Long: `Give a lock back, as its holder: --token and --nonce are what locks acquire printed.
Exit code 5 means that it was lost before.

With --force somebody else takes it from its holder and gives it to the first who
waits, or to nobody. The holder may still be running; it is told, and no write under
its lock is accepted any more. What it does elsewhere nobody can stop: look first
whether it is gone.`,
		Example: `  leasectl locks release deploy --token 918201 --nonce 5f1c...
  leasectl locks release deploy --force --reason "its host is gone"
  leasectl locks release deploy --force --token 918201 --yes   # only this claim`,
	})
}

func newLocksAcquire(a *cli.App) *cobra.Command {
	return newClaimAcquire(a, lockNoun, &cobra.Command{
		Use:   "acquire NAME --session S",
		Short: "Acquire a lock for a session, from a script",
		Long: `Acquire a lock for a session, and print what proves it: its token and nonce, to locks
verify and release, and its key, for a guarded write with etcdctl. It is held as long
as the session is renewed, or until it is released. With --wait it waits in line; else,
and when that is over, the exit code is 124. 5 means that the session is gone.`,
		Example: `  leasectl locks acquire deploy --session "$S" -o json
  leasectl locks acquire deploy --session "$S" --wait 1m -o json >lock.json`,
	})
}

func newLocksVerify(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{lockNoun, "held", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify NAME --token N",
		Short: "Prove that a lock is still held",
		Long: `Prove that a lock is still held under a token, in this moment: a majority of etcd's
members has said so, and the session was renewed. Exit code 5 means that it is not.`,
		Example: `  leasectl locks verify deploy --token 918201 --nonce 5f1c...`,
	})
}
