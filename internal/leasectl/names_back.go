package leasectl

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// takesBack lets verbs take the name of a thing as -o name prints it, queue/mail, beside mail. The noun is taken off once,
// so a queue that is itself called queue/mail has to be named as it is printed, queue/queue/mail.
func takesBack(noun string, verbs ...*cobra.Command) []*cobra.Command {
	for _, verb := range verbs {
		run := verb.RunE
		if firstPlaceholder(verb.Use) == "" {
			continue
		}
		verb.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if name, ok := strings.CutPrefix(args[0], noun+"/"); ok && name != "" {
					args = slices.Concat([]string{name}, args[1:])
				}
			}
			return run(cmd, args)
		}
	}
	return verbs
}
