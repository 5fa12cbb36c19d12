package leasectl

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	checks "github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/dump"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/filter"
	"github.com/leasekit/leasekit/internal/leasectl/local"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/roles"
	"github.com/leasekit/leasekit/internal/simulate"
)

// flagValues are what flags take that take one of a few values, by the flag, or by its command and the flag where that
// name means something else elsewhere.
func flagValues() map[string][]string {
	var states, codes []string
	for _, s := range filter.States {
		states = append(states, string(s))
	}
	for _, c := range checks.Checks() {
		codes = append(codes, c.Code)
	}
	return map[string][]string{
		"state":         states,
		"for":           states,
		"set mode":      {"claim", "dispatch"},
		"set retain":    {look.TakeBack},
		"retain-jobs":   {look.TakeBack},
		"retain-bytes":  {look.TakeBack},
		"backoff":       {look.TakeBack},
		"simulate mode": {string(simulate.Naive), string(simulate.Claim), string(simulate.Dispatch)},
		"scenario":      append(simulate.Scenarios(), local.ReadmeScenario),
		"skip":          codes,
		"format":        doctor.Formats,
		"color":         output.ColourModes,
		"type":          events.Types,
		"on-conflict":   dump.Conflicts,
		"role":          {roles.Viewer, roles.Producer, roles.Worker, roles.Dispatcher, roles.Operator},
	}
}

// flagLookups are what flags take that name something in etcd.
var flagLookups = map[string]lookup{
	"queue":       completeQueues,
	"move to":     completeQueues,
	"session":     completeSessions,
	"transfer to": completeSessions,
}

// addFlagCompletions completes the values of flags, here and below. What takes neither a name nor one of a few values, nor
// a file, is offered nothing: the shell would offer files.
func addFlagCompletions(a *cli.App, cmd *cobra.Command) {
	values := flagValues()
	register := func(f *pflag.Flag) {
		complete := flagCompletion(a, cmd.Name(), f, values)
		if complete == nil {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil { // only a flag that has one already
			panic(err)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); !has {
			register(f)
		}
	})
	for _, sub := range cmd.Commands() {
		addFlagCompletions(a, sub)
	}
}

func flagCompletion(a *cli.App, verb string, f *pflag.Flag, values map[string][]string) cobra.CompletionFunc {
	if f.Name == "context" {
		return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completeContexts(a, cmd, nil, toComplete)
		}
	}
	if f.Name == "output" {
		return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return oneOf(outputsOf(cmd), false)(cmd, args, toComplete)
		}
	}
	for _, name := range []string{verb + " " + f.Name, f.Name} {
		if of, ok := values[name]; ok {
			return oneOf(of, f.Value.Type() == "stringSlice")
		}
		if look := flagLookups[name]; look != nil {
			return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
				return offers(a, cmd, look, toComplete), cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
	switch what, _ := pflag.UnquoteUsage(f); {
	case f.Value.Type() == "bool", what == "FILE", what == "DIR":
		return nil
	}
	return cobra.NoFileCompletions
}

// outputsOf are the formats that a command offers. Each says in its error what else it lacks.
func outputsOf(cmd *cobra.Command) []string {
	if cmd.Name() == "top" {
		return []string{output.Table, output.SVG}
	}
	return output.ListFormats
}

// oneOf offers values that are known beforehand; in a list with commas, what is not there yet for its last place.
func oneOf(values []string, list bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		before, last := "", toComplete
		if i := strings.LastIndexByte(toComplete, ','); list && i >= 0 {
			before, last = toComplete[:i+1], toComplete[i+1:]
		}
		var fit []string
		for _, v := range values {
			if strings.HasPrefix(v, last) && !slices.Contains(strings.Split(before, ","), v) {
				fit = append(fit, before+v)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}
