package leasectl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/contexts"
)

func newConfig(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Name clusters, and choose the one to work with",
		GroupID: groupOther,
	},
		takesBack("context", newConfigView(a), newConfigContexts(a), staysHome(newConfigUse(a)), staysHome(newConfigSet(a)), staysHome(newConfigRename(a)), staysHome(newConfigDelete(a)), newConfigTest(a))...)
}

// contextFile reads the file of contexts and says where it is.
func contextFile(a *app) (path string, f contexts.File, err error) {
	if path, err = contexts.Path(a.getenv); err != nil {
		return "", f, usagef("LEASECTL_CONFIG=FILE", "no place for contexts: %v", err)
	}
	if f, err = contexts.Load(path); err != nil {
		return "", f, usagef("mend the file, or LEASECTL_CONFIG=ANOTHER", "%v", err)
	}
	return path, f, nil
}

// changeContexts changes the file of contexts by a pure function.
func changeContexts(a *app, change func(contexts.File) (contexts.File, error)) (contexts.File, error) {
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
		return &failure{code: exitNotFound, err: err, try: "leasectl config get-contexts"}
	}
	return usagef("", "%w", err)
}

// contextItem is a context as it is printed. A password command is shown: it is no secret, only what it prints is.
type contextItem struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Context
}

var contextView = view[contextItem]{
	name: func(i contextItem) string { return refName("context", i.Name) },
	columns: []column[contextItem]{
		{"NAME", func(i contextItem) string { return nameCell("context", i.Name) }},
		{"CURRENT", func(i contextItem) string { return yesNo(i.Current) }},
		{"ENDPOINTS", func(i contextItem) string { return i.Value("endpoints") }},
		{"ROOT", func(i contextItem) string { return i.Root }},
		{"USER", func(i contextItem) string { return i.User }},
		{"READ-ONLY", func(i contextItem) string { return yesNo(i.ReadOnly) }},
		{"CONFIRM", func(i contextItem) string { return i.Confirm }},
	},
}

func newConfigContexts(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "get-contexts",
		Short:   "List the contexts",
		Aliases: []string{"ls", "list"},
		Example: `  leasectl config get-contexts
  leasectl config get-contexts -o yaml`,
		Args: takes(),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.printer(o)
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
					c.Endpoints = strings.Split(withoutUserinfo(c.Value("endpoints")), ",")
				}
				items = append(items, contextItem{name, name == f.Current, c})
			}
			return printList(p, contextView, items)
		},
	}
	o.addStaticFlags(cmd)
	return cmd
}

func newConfigUse(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the context to work with; - is the previous one, none is none",
		Example: `  leasectl config use prod
  leasectl config use -
  leasectl config use none`,
		Args: takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Use(args[0]) })
			if err != nil {
				return err
			}
			if f.Current == "" {
				return a.printLine("no context is in use")
			}
			return a.printLine(refName("context", f.Current) + " is in use")
		},
	}
}

func newConfigRename(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rename OLD NEW",
		Short:   "Give a context another name",
		Example: `  leasectl config rename prod prod-eu`,
		Args:    takes("OLD", "NEW"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Rename(args[0], args[1]) }); err != nil {
				return err
			}
			return a.printLine(refName("context", args[1]) + " was " + args[0])
		},
	}
}

func newConfigDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Forget a context; the cluster is not touched",
		Example: `  leasectl config delete old`,
		Args:    takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := changeContexts(a, func(f contexts.File) (contexts.File, error) { return f.Delete(args[0]) }); err != nil {
				return err
			}
			return a.printLine(refName("context", args[0]) + " deleted")
		},
	}
}

func newConfigTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test",
		Short: "Try to reach the cluster with the settings in use",
		Example: `  leasectl config test
  leasectl config test --context prod`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEtcd(cmd.Context(), func(c *connection) error {
				return a.printLine(fmt.Sprintf("ok: %s answers", c.where()))
			})
		},
	}
}
