package leasectl

import (
	"slices"

	"github.com/spf13/cobra"
)

// newRoot builds the command tree of one invocation over the verbs of the first level.
func newRoot(a *app, verbs []*cobra.Command) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "leasectl",
		Short: "Jobs, locks and leadership in etcd: run, inspect and repair them",
		Long: `leasectl runs, inspects and repairs work that is coordinated through etcd:
jobs that are worked by exactly one owner at a time, locks, leadership, and
permits.`,
		Example: `  leasectl dev --ephemeral            # an etcd to play with, in another terminal
  leasectl enqueue mail '{"to":"ana"}'
  leasectl work mail -c 4 -- python3 send.py
  leasectl jobs ls mail
  leasectl help exit-codes            # what scripts can rely on`,
		SilenceUsage:      true, // an error is one line, not a page
		SilenceErrors:     true, // Main prints it
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.need = needOf(cmd, args)
			if err := a.settings.load(cmd.Flags(), a.getenv); err != nil {
				return err
			}
			if a.settings.shape != nil {
				a.shaper = startShaper(cmd.Context(), a.settings.shape, a.out)
			}
			return a.permit(cmd)
		},
	})
	for _, g := range groups { // a title without verbs would be noise
		if g.ID == groupOther || slices.ContainsFunc(verbs, func(v *cobra.Command) bool { return v.GroupID == g.ID }) {
			root.AddGroup(g)
		}
	}
	a.settings.addFlags(root.PersistentFlags())
	a.settings.ask = a.passwordPrompt()
	root.SetFlagErrorFunc(flagError)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID(groupOther)
	root.AddCommand(verbs...)
	addCompletions(a, root)
	addFlagCompletions(a, root)
	runGroup := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help() // the one question that leasectl alone can be
		}
		return runGroup(cmd, args)
	}
	return root
}

// verbs lists the commands of the first level.
func verbs(a *app) []*cobra.Command {
	return []*cobra.Command{
		newEnqueue(a),
		writes(newWork(a)),
		newSession(a),
		newStatus(a),
		upTo(newTop(a), impactWrite),
		newJobs(a),
		newQueues(a),
		newWorkers(a),
		newLeases(a),
		newEvents(a),
		writes(newDispatch(a)),
		writes(newLock(a)),
		newLocks(a),
		newSemaphores(a),
		newElections(a),
		upTo(newDoctor(a), impactDestroy),
		staysHome(newDev(a)),
		staysHome(newDemo(a)),
		staysHome(newSimulate(a)),
		newBench(a),
		newExport(a),
		newImport(a),
		newAuth(a),
		newConfig(a),
		newSchema(a),
		newDocs(a),
		newVersion(a),
		newCompletion(a),
	}
}
