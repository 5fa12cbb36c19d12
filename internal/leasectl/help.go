package leasectl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// newHelp replaces cobra's help command: it knows topics beside commands, and an unknown one is a usage error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Explain a command, or one of the topics exit-codes, env, states, filters, names, fencing, exec, scripts",
		Example: `  leasectl help dev
  leasectl help jobs requeue
  leasectl help exit-codes`,
		GroupID:           cli.GroupOther,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // help must work with any environment
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if text, ok := topics[args[0]]; ok {
					_, err := fmt.Fprint(cmd.OutOrStdout(), text)
					return err
				}
			}
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return cli.UnknownVerb(target, args[len(args)-max(1, len(rest))])
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}
