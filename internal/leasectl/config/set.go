package config

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func newConfigSet(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "set CONTEXT NAME=VALUE...",
		Short: "Make a context, or change one",
		Long: `Make a context, or change one. The first becomes the current one. An empty value
takes a setting out. The settings:

  endpoints          URL[,URL...]
  root               the key prefix of one tenant or environment
  as                 who one is for others and for roles
  cacert cert key    files, as the flags of these names
  user               and with it one of
  password_file      a file that holds the password
  password_command   a shell command that prints it, such as "pass show etcd"
  dial_timeout       such as 5s
  output             what -o is without one
  color              what --color is without one
  read_only          true refuses every verb that writes
  confirm            what is asked before a verb that writes: none, yes (y or n),
                     type-name (the name of the context)

A password itself is never kept. The file is $XDG_CONFIG_HOME/leasectl/config.yaml,
or $LEASECTL_CONFIG.`,
		Example: `  leasectl config set dev endpoints=http://127.0.0.1:2379
  leasectl config set prod endpoints=https://etcd-1:2379,https://etcd-2:2379 cacert=/etc/etcd/ca.pem user=ana "password_command=pass show etcd" confirm=type-name`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exit.Usagef(cli.HelpOf(cmd), "%swant a context and at least one NAME=VALUE", cli.VerbPrefix(cmd))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if strings.Contains(name, "=") {
				return exit.Usagef("leasectl config set NAME "+args[1], "%q is no name for a context", name)
			}
			begun := ""
			f, err := changeContexts(a, func(f contexts.File) (contexts.File, error) {
				begun = f.Current
				c, err := f.Contexts[name].With(args[1:]...)
				if err != nil {
					return f, err
				}
				if _, err := connect.ParseEndpoints(c.Value("endpoints"), "endpoints", c.CACert+c.Cert != ""); err != nil {
					return f, err
				}
				return f.Put(name, c)
			})
			if err != nil {
				return err
			}
			if f.Current != begun {
				return a.PrintLine(escape.Ref("context", name) + " set, and in use: it is the first")
			}
			return a.PrintLine(escape.Ref("context", name) + " set")
		},
	}
}
