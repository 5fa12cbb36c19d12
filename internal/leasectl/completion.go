package leasectl

import (
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "Print the completion script for a shell",
		GroupID: groupOther,
		Example: `  source <(leasectl completion bash)
  leasectl completion zsh >"${fpath[1]}/_leasectl"`,
		Args:      takes("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			return usagef(helpOf(cmd), "%sunknown shell %q: want %s", verbPrefix(cmd), args[0], strings.Join(shells, ", "))
		},
	}
}
