package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// NewLock is leasectl lock.
func NewLock(a *cli.App) *cobra.Command {
	o := underOptions{claimNoun: lockNoun}
	cmd := newUnder(a, &o, &cobra.Command{
		Use:   "lock NAME [flags] -- CMD [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Wait for a lock, in line, and run a command while holding it. The command has the
streams of leasectl, and in its environment LEASECTL_TOKEN, LEASECTL_CLAIM_KEY,
LEASECTL_SESSION, and the endpoints and root in use.

When the lock is lost, because etcd was silent for too long or somebody took it,
the command's process group gets SIGTERM, and SIGKILL before the lease can have
ended: nobody else holds the lock while the command runs, as long as clocks behave.
The same holds when leasectl is killed or stopped, for all that the command started;
leasectl help exec says what no program can stop. SIGHUP, SIGINT, SIGQUIT and SIGTERM
end the command with --grace, and give the lock back.

Who only waits keeps waiting over an outage of etcd, behind those who did not lose
their place. The exit code is that of the command, or
  121  the lock was lost, and the command was stopped
  124  not acquired within --timeout
  125  leasectl failed
  126  the command cannot be executed; 127: it is not found`,
		GroupID: cli.GroupWork,
		Example: `  leasectl lock deploy -- ./deploy.sh
  leasectl lock backup --timeout 0s -- ./backup.sh      # not at all if it is held
  leasectl lock deploy --ttl 5s --timeout 1m -- ./deploy.sh`,
	})
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "give up after `TIME`; 0s does not wait, without it the wait has no end")
	return cmd
}

// inLine is whether to wait, and how long.
func (o *underOptions) inLine(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup("timeout")
	o.forever = f == nil || !f.Changed
	badTTL := cli.CheckTTL(o.ttl)
	switch {
	case o.timeout < 0:
		return exit.Usagef("--timeout 0s", "--timeout is %v: it must not be negative", o.timeout)
	case badTTL != nil:
		return badTTL
	case o.grace < 0:
		return exit.Usagef("--grace 10s", "--grace is %v: it must not be negative", o.grace)
	}
	return nil
}
