// Package config is what leasectl config does: contexts, and the settings in use.
package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// New is leasectl config.
func New(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "config",
		Short:   "Name clusters, and choose the one to work with",
		GroupID: cli.GroupOther,
	},
		cli.TakesBack("context", newConfigView(a), newConfigContexts(a), cli.StaysHome(newConfigUse(a)), cli.StaysHome(newConfigSet(a)), cli.StaysHome(newConfigRename(a)), cli.StaysHome(newConfigDelete(a)), newConfigTest(a))...)
}

// contextFile reads the file of contexts and says where it is.
func contextFile(a *cli.App) (path string, f contexts.File, err error) {
	if path, err = contexts.Path(a.Getenv); err != nil {
		return "", f, exit.Usagef("LEASECTL_CONFIG=FILE", "no place for contexts: %v", err)
	}
	if f, err = contexts.Load(path); err != nil {
		return "", f, exit.Usagef("mend the file, or LEASECTL_CONFIG=ANOTHER", "%v", err)
	}
	return path, f, nil
}

// changeContexts changes the file of contexts by a pure function.
func changeContexts(a *cli.App, change func(contexts.File) (contexts.File, error)) (contexts.File, error) {
	path, f, err := contextFile(a)
	if err != nil {
		return f, err
	}
	if f, err = change(f); err != nil {
		return f, contextError(err)
	}
	return f, contexts.Save(path, f)
}

// contextError gives the errors of package contexts their exit codes.
func contextError(err error) error {
	var unknown *contexts.UnknownError
	if errors.As(err, &unknown) {
		return &exit.Error{Code: exit.NotFound, Err: err, Try: "leasectl config get-contexts"}
	}
	return exit.Usagef("", "%w", err)
}

// contextItem is a context as it is printed. A password command is shown: it is no secret, only what it prints is.
type contextItem struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Context
}

var contextView = output.View[contextItem]{
	Name: func(i contextItem) string { return escape.Ref("context", i.Name) },
	Columns: []output.Column[contextItem]{
		{Head: "NAME", Cell: func(i contextItem) string { return escape.NameCell("context", i.Name) }},
		{Head: "CURRENT", Cell: func(i contextItem) string { return output.YesNo(i.Current) }},
		{Head: "ENDPOINTS", Cell: func(i contextItem) string { return i.Value("endpoints") }},
		{Head: "ROOT", Cell: func(i contextItem) string { return i.Root }},
		{Head: "USER", Cell: func(i contextItem) string { return i.User }},
		{Head: "READ-ONLY", Cell: func(i contextItem) string { return output.YesNo(i.ReadOnly) }},
		{Head: "CONFIRM", Cell: func(i contextItem) string { return i.Confirm }},
	},
}

func newConfigContexts(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:     "get-contexts",
		Short:   "List the contexts",
		Aliases: []string{"ls", "list"},
		Example: `  leasectl config get-contexts
  leasectl config get-contexts -o yaml`,
		Args: cli.Takes(),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.Printer(o)
			if err != nil {
				return err
			}
			_, f, err := contextFile(a)
			if err != nil {
				return err
			}
			var items []contextItem
			for _, name := range f.Names() {
				c := f.Contexts[name]
				c.User = withoutPassword(c.User) // one that was written by hand
				if c.Endpoints != nil {
					c.Endpoints = strings.Split(connect.WithoutUserinfo(c.Value("endpoints")), ",")
				}
				items = append(items, contextItem{name, name == f.Current, c})
			}
			return output.PrintList(p, contextView, items)
		},
	}
	o.AddStaticFlags(cmd)
	return cmd
}

func newConfigUse(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the context to work with; - is the previous one, none is none",
		Example: `  leasectl config use prod
  leasectl config use -
  leasectl config use none`,
		Args: cli.Takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Use(args[0]) })
			if err != nil {
				return err
			}
			if f.Current == "" {
				return a.PrintLine("no context is in use")
			}
			return a.PrintLine(escape.Ref("context", f.Current) + " is in use")
		},
	}
}

func newConfigRename(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "rename OLD NEW",
		Short:   "Give a context another name",
		Example: `  leasectl config rename prod prod-eu`,
		Args:    cli.Takes("OLD", "NEW"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Rename(args[0], args[1]) }); err != nil {
				return err
			}
			return a.PrintLine(escape.Ref("context", args[1]) + " was " + args[0])
		},
	}
}

func newConfigDelete(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Forget a context; the cluster is not touched",
		Example: `  leasectl config delete old`,
		Args:    cli.Takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Delete(args[0]) }); err != nil {
				return err
			}
			return a.PrintLine(escape.Ref("context", args[0]) + " deleted")
		},
	}
}

func newConfigTest(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "test",
		Short: "Try to reach the cluster with the settings in use",
		Example: `  leasectl config test
  leasectl config test --context prod`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				return a.PrintLine(fmt.Sprintf("ok: %s answers", c.Where()))
			})
		},
	}
}
