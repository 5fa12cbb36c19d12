package leasectl

import "github.com/spf13/cobra"

func newQueues(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "queues",
		Short: "Look at queues, pause them, choose how their jobs are shared",
		Long: `Look at queues, pause them, and choose how their jobs are shared. QUEUE is a name, also
as -o name prints it, queue/NAME.`,
		GroupID: groupLook,
		Example: `  leasectl queues ls
  leasectl queues pause mail --reason "smtp is down"
  leasectl queues set mail --mode dispatch
  leasectl queues set mail --retain 24h`,
		Aliases: []string{"queue", "q"},
	}, takesBack("queue", newQueuesLs(a), newQueuesGet(a), newQueuesDescribe(a), newQueuesStats(a), newQueuesSet(a), newQueuesPause(a), newQueuesResume(a), newQueuesDrain(a), newQueuesPurge(a), newQueuesRm(a))...)
}
