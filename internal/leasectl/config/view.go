package config

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// settingItem is one setting in use and where its value comes from.
type settingItem struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // a flag, a variable, a context or default
}

func newConfigView(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	var origin bool
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show the settings in use, and where each comes from",
		Long: `Show the settings that a command would use here and now. For each by itself, a
flag wins over its LEASECTL variable, that one over the context, and that one over
etcdctl's variable. Passwords are not shown.`,
		Example: `  leasectl config view
  leasectl config view --show-origin
  leasectl config view --context prod -o json`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.Printer(o)
			if err != nil {
				return err
			}
			if a.Settings.ContextErr != nil {
				return a.Settings.ContextErr
			}
			v := settingView
			if !origin && p.Format == output.Table {
				v.Columns = v.Columns[:2]
			}
			return output.PrintList(p, v, settingItems(a, cmd))
		},
	}
	cmd.Flags().BoolVar(&origin, "show-origin", false, "show where each value comes from, as -o wide and json always do")
	o.AddStaticFlags(cmd)
	return cmd
}

var settingView = output.View[settingItem]{
	Name: func(i settingItem) string { return "setting/" + i.Name },
	Columns: []output.Column[settingItem]{
		{Head: "NAME", Cell: func(i settingItem) string { return i.Name }},
		{Head: "VALUE", Cell: func(i settingItem) string { return i.Value }},
		{Head: "ORIGIN", Cell: func(i settingItem) string { return i.Origin }},
	},
}

func settingItems(a *cli.App, cmd *cobra.Command) []settingItem {
	s := &a.Settings
	items := []settingItem{{"context", s.Context, originOr(s.Origin["context"], s.Context)}}
	for _, g := range connect.GlobalFlags {
		value := cmd.Flags().Lookup(g.Flag).Value.String()
		if g.Flag == "endpoints" && value == "" {
			value = "http://" + connect.DefaultEndpoint
		}
		switch g.Flag {
		case "user":
			value = withoutPassword(value)
		case "endpoints":
			value = connect.WithoutUserinfo(value)
		}
		items = append(items, settingItem{g.Flag, value, originOr(s.Origin[g.Flag], s.Origin[g.Flag])})
	}
	items = append(items, passwordItem(a))
	for _, name := range []string{"read_only", "confirm"} {
		if v := s.Chosen.Value(name); v != "" {
			items = append(items, settingItem{name, v, s.ContextName()})
		}
	}
	return items
}

func originOr(origin, set string) string {
	if set == "" {
		return "default"
	}
	return origin
}

// passwordItem says where the password would come from, without fetching it.
func passwordItem(a *cli.App) settingItem {
	s := &a.Settings
	item := settingItem{Name: "password", Value: "(hidden)"}
	ours := s.Source("user") == s.ContextName()
	switch {
	case s.User == "":
		return settingItem{"password", "", "default"}
	case s.PasswordFile != "":
		item.Origin = s.Source("password-file")
	case withoutPassword(s.User) != s.User:
		item.Origin = s.Source("user")
	case a.Getenv("LEASECTL_PASSWORD") != "":
		item.Origin = "LEASECTL_PASSWORD"
	case ours && s.Chosen.PasswordFile+s.Chosen.PasswordCommand != "":
		item.Origin = s.ContextName()
	case a.Getenv("ETCDCTL_PASSWORD") != "":
		item.Origin = "ETCDCTL_PASSWORD"
	default:
		return settingItem{"password", "", "asked for"}
	}
	return item
}

// withoutPassword returns the name of name:password.
func withoutPassword(user string) string {
	name, _, _ := strings.Cut(user, ":")
	return name
}
