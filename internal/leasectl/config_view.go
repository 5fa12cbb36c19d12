package leasectl

import (
	"strings"

	"github.com/spf13/cobra"
)

// settingItem is one setting in use and where its value comes from.
type settingItem struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // a flag, a variable, a context or default
}

func newConfigView(a *app) *cobra.Command {
	var o listOptions
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
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.printer(o)
			if err != nil {
				return err
			}
			if a.settings.contextErr != nil {
				return a.settings.contextErr
			}
			v := settingView
			if !origin && p.format == formatTable {
				v.columns = v.columns[:2]
			}
			return printList(p, v, settingItems(a, cmd))
		},
	}
	cmd.Flags().BoolVar(&origin, "show-origin", false, "show where each value comes from, as -o wide and json always do")
	o.addStaticFlags(cmd)
	return cmd
}

var settingView = view[settingItem]{
	name: func(i settingItem) string { return "setting/" + i.Name },
	columns: []column[settingItem]{
		{"NAME", func(i settingItem) string { return i.Name }},
		{"VALUE", func(i settingItem) string { return i.Value }},
		{"ORIGIN", func(i settingItem) string { return i.Origin }},
	},
}

func settingItems(a *app, cmd *cobra.Command) []settingItem {
	s := &a.settings
	items := []settingItem{{"context", s.context, originOr(s.origin["context"], s.context)}}
	for _, g := range globalFlags {
		value := cmd.Flags().Lookup(g.flag).Value.String()
		if g.flag == "endpoints" && value == "" {
			value = "http://" + defaultEndpoint
		}
		switch g.flag {
		case "user":
			value = withoutPassword(value)
		case "endpoints":
			value = withoutUserinfo(value)
		}
		items = append(items, settingItem{g.flag, value, originOr(s.origin[g.flag], s.origin[g.flag])})
	}
	items = append(items, passwordItem(a))
	for _, name := range []string{"read_only", "confirm"} {
		if v := s.chosen.Value(name); v != "" {
			items = append(items, settingItem{name, v, s.contextName()})
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
func passwordItem(a *app) settingItem {
	s := &a.settings
	item := settingItem{Name: "password", Value: "(hidden)"}
	ours := s.source("user") == s.contextName()
	switch {
	case s.user == "":
		return settingItem{"password", "", "default"}
	case s.passwordFile != "":
		item.Origin = s.source("password-file")
	case withoutPassword(s.user) != s.user:
		item.Origin = s.source("user")
	case a.getenv("LEASECTL_PASSWORD") != "":
		item.Origin = "LEASECTL_PASSWORD"
	case ours && s.chosen.PasswordFile+s.chosen.PasswordCommand != "":
		item.Origin = s.contextName()
	case a.getenv("ETCDCTL_PASSWORD") != "":
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
