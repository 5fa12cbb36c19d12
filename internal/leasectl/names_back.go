package leasectl

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// refName is the name of a thing as -o name prints it, such as queue/mail: one word, which the verbs of the noun take back.
func refName(noun, name string) string { return noun + "/" + escape.Name(name, "") }

// nameCell is a name in a table: itself, or, where that is not one word or is read as something else, as -o name prints
// it. In both forms it can be typed as it stands there.
func nameCell(noun, name string) string {
	if escape.Name(name, "") == name && !strings.HasPrefix(name, noun+"/") && !strings.HasPrefix(name, "-") {
		return name
	}
	return refName(noun, name)
}

// wordCell is a text in a table or behind its noun that no verb reads as a reference, such as a kind, or a session's ID,
// which is escaped by itself: one word, in which a percent sign is left alone.
func wordCell(text string) string { return strings.ReplaceAll(escape.Name(text, ""), "%25", "%") }

// usable tells whether verbs take a name that was found in etcd, and warns of one that they do not: it came there by hand.
func (a *app) usable(noun, name string) bool {
	err := keyspace.ValidateName(noun, name)
	if err != nil {
		a.notef("warning: %s is left out: %s; leasectl doctor --fix removes it", refName(noun, name), errorText(err))
	}
	return err == nil
}

// takesBack lets verbs take the name of a thing as -o name prints it, queue/mail, beside mail. Only behind the noun %XX
// stands for a byte. The noun is taken off once, so a queue that is itself called queue/mail has to be named as it is
// printed, queue/queue/mail.
func takesBack(noun string, verbs ...*cobra.Command) []*cobra.Command {
	for _, verb := range verbs {
		run := verb.RunE
		if firstPlaceholder(verb.Use) == "" {
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
