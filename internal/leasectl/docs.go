package leasectl

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

func newDocs(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "docs",
		Short:   "Write the manual, from the program itself",
		GroupID: cli.GroupOther,
		Example: `  leasectl docs man ~/.local/share/man/man1
  leasectl docs markdown docs/cli`,
	},
		newDocsKind(a, "man", "Write a man page per command into DIR", func(root *cobra.Command, dir string) error {
			epoch := time.Unix(0, 0).UTC() // the same program writes the same pages
			return doc.GenManTree(root, &doc.GenManHeader{Title: "LEASECTL", Section: "1", Source: "Leasekit", Manual: "Leasekit", Date: &epoch}, dir)
		}),
		newDocsKind(a, "markdown", "Write a Markdown page per command into DIR", doc.GenMarkdownTree),
	)
}

func newDocsKind(a *cli.App, kind, short string, write func(*cobra.Command, string) error) *cobra.Command {
	return &cobra.Command{
		Use:     kind + " DIR",
		Short:   short,
		Long:    short + `, which is made if it is not there. Files of the same names are replaced.`,
		Example: "  leasectl docs " + kind + " ./" + kind,
		Args:    cli.Takes("DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := write(root, args[0]); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			return a.PrintLine(args[0])
		},
	}
}
