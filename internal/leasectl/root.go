package leasectl

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/auth"
	"github.com/leasekit/leasekit/internal/leasectl/claims"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/config"
	"github.com/leasekit/leasekit/internal/leasectl/desk"
	"github.com/leasekit/leasekit/internal/leasectl/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/dump"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/local"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leasectl/queues"
	"github.com/leasekit/leasekit/internal/leasectl/sessions"
	"github.com/leasekit/leasekit/internal/leasectl/status"
	"github.com/leasekit/leasekit/internal/leasectl/work"
	"github.com/leasekit/leasekit/internal/leasectl/workers"
)

// newRoot builds the command tree of one invocation over the verbs of the first level.
func newRoot(a *cli.App, verbs []*cobra.Command) *cobra.Command {
	root := cli.Group(&cobra.Command{
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
			a.Need = cli.NeedOf(cmd, args)
			if err := a.Settings.Load(cmd.Flags(), a.Getenv); err != nil {
				return err
			}
			if a.Settings.Shape != nil {
				a.Shaper = output.StartShaper(cmd.Context(), a.Settings.Shape, a.Out)
			}
			return a.Permit(cmd)
		},
	})
	for _, g := range cli.Groups { // a title without verbs would be noise
		if g.ID == cli.GroupOther || slices.ContainsFunc(verbs, func(v *cobra.Command) bool { return v.GroupID == g.ID }) {
			root.AddGroup(g)
		}
	}
	a.Settings.AddFlags(root.PersistentFlags())
	a.Settings.Ask = a.PasswordPrompt()
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID(cli.GroupOther)
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
func verbs(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		jobs.NewEnqueue(a),
		cli.Writes(work.New(a)),
		sessions.New(a),
		status.New(a),
		cli.UpTo(desk.New(a), cli.ImpactWrite),
		jobs.New(a),
		queues.New(a),
		workers.New(a),
		sessions.NewLeases(a),
		events.New(a),
		cli.Writes(work.NewDispatch(a)),
		cli.Writes(claims.NewLock(a)),
		claims.NewLocks(a),
		claims.NewSemaphores(a),
		claims.NewElections(a),
		cli.UpTo(doctor.New(a), cli.ImpactDestroy),
		cli.StaysHome(local.NewDev(a)),
		cli.StaysHome(local.NewDemo(a)),
		cli.StaysHome(local.NewSimulate(a)),
		local.NewBench(a),
		dump.NewExport(a),
		dump.NewImport(a),
		auth.New(a),
		config.New(a),
		newSchema(a),
		newDocs(a),
		newVersion(a),
		newCompletion(a),
	}
}
