// Package queues has the verbs about queues.
package queues

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// New is leasectl queues.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "queues",
		Short: "Look at queues, pause them, choose how their jobs are shared",
		Long: `Look at queues, pause them, and choose how their jobs are shared. QUEUE is a name, also
as -o name prints it, queue/NAME.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl queues ls
  leasectl queues pause mail --reason "smtp is down"
  leasectl queues set mail --mode dispatch
  leasectl queues set mail --retain 24h`,
		Aliases: []string{"queue", "q"},
	}, cli.TakesBack("queue", newQueuesLs(a), newQueuesGet(a), newQueuesDescribe(a), newQueuesStats(a), newQueuesSet(a), newQueuesPause(a), newQueuesResume(a), newQueuesDrain(a), newQueuesPurge(a), newQueuesRm(a))...)
}
