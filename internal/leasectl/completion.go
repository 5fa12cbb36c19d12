package leasectl

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "Print the completion script for a shell",
		GroupID: cli.GroupOther,
		Example: `  source <(leasectl completion bash)
  leasectl completion zsh >"${fpath[1]}/_leasectl"`,
		Args:      cli.Takes("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.Out)
			}
			return exit.Usagef(cli.HelpOf(cmd), "%sunknown shell %q: want %s", cli.VerbPrefix(cmd), args[0], strings.Join(shells, ", "))
		},
	}
}
