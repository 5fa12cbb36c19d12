package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Usable tells whether verbs take a name that was found in etcd, and warns of one that they do not: it came there by hand.
func (a *App) Usable(noun, name string) bool {
	err := keyspace.ValidateName(noun, name)
	if err != nil {
		a.Notef("warning: %s is left out: %s; leasectl doctor --fix removes it", escape.Ref(noun, name), exit.Text(err))
	}
	return err == nil
}

// TakesBack lets verbs take the name of a thing as -o name prints it, queue/mail, beside mail. Only behind the noun %XX
// stands for a byte. The noun is taken off once, so a queue that is itself called queue/mail has to be named as it is
// printed, queue/queue/mail.
func TakesBack(noun string, verbs ...*cobra.Command) []*cobra.Command {
	for _, verb := range verbs {
		run := verb.RunE
		if FirstPlaceholder(verb.Use) == "" {
			continue
		}
		verb.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				args = slices.Concat([]string{nameOfArg(noun, args[0])}, args[1:])
			}
			return run(cmd, args)
		}
	}
	return verbs
}

// nameOfArg is the name that an argument means.
func nameOfArg(noun, arg string) string {
	if name, ok := strings.CutPrefix(arg, noun+"/"); ok && name != "" {
		return escape.Unname(name)
	}
	return arg
}
