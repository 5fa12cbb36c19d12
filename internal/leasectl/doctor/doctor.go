// Package doctor is the verb that looks for what is wrong, by the checks of internal/doctor, and repairs it.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// The formats of doctor; -o json means the second.
const (
	doctorText       = "text"
	doctorJSON       = "json"
	doctorMarkdown   = "md"
	doctorNagios     = "nagios"
	doctorPrometheus = "prometheus"
)

// Formats are what --format takes.
var Formats = []string{doctorText, doctorJSON, doctorMarkdown, doctorNagios, doctorPrometheus}

type doctorOptions struct {
	cli.Mutation
	doctor.Options
	fix          bool
	afterRestore bool
	format       string
}

// doctored is an examination, and where it was made.
type doctored struct {
	*doctor.Exam
	where string
	close func()
}

// New is leasectl doctor.
func New(a *cli.App) *cobra.Command {
	var o doctorOptions
	cmd := cli.WithImpact(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, and repair it",
		Long: `Look at etcd, sessions, queues, jobs, elections, locks and keys, at one revision,
and report what is wrong. What is only wrong when it lasts is looked at twice, and
reported when it has not moved. Looking changes nothing, and reads no payloads.

--fix shows a plan, asks, and repairs what can be repaired safely, each only if it
is still at the revision that was found. --after-restore is for the time after etcd
was restored from a backup: it ends all sessions, so that everybody starts anew.

Exit code 0: nothing, or warnings only. 8: errors remain. 7: a repair failed. 4: a
permission is missing. 6: etcd is not reachable. With --format nagios: 0, 1, 2, 3.`,
		Example: `  leasectl doctor
  leasectl doctor --fix --reason "after the outage"
  leasectl doctor --skip S2,C1 -o json
  leasectl doctor --format prometheus > /var/lib/node_exporter/leasekit.prom
  leasectl doctor checks              # what the codes mean`,
		GroupID: cli.GroupLook,
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(a, cmd); err != nil {
				return err
			}
			if o.fix || o.afterRestore {
				if err := a.Permit(cli.WithImpact(cmd, cli.ImpactWrite)); err != nil {
					return err
				}
			}
			if o.afterRestore {
				return runAfterRestore(cmd.Context(), a, o)
			}
			return o.verdict(a, runDoctor(cmd.Context(), a, o))
		},
	}, cli.ImpactRead)
	f := cmd.Flags()
	f.BoolVar(&o.fix, "fix", false, "repair what can be repaired, after a question")
	f.BoolVar(&o.afterRestore, "after-restore", false, "end all sessions after etcd was restored from a backup")
	f.StringVar(&o.format, "format", doctorText, "print as `FORMAT`: "+strings.Join(Formats, ", "))
	f.StringSliceVar(&o.Skip, "skip", nil, "leave out the checks `CODE`[,CODE...]")
	f.DurationVar(&o.Window, "window", 3*time.Second, "what must last is looked at again after `TIME`")
	f.DurationVar(&o.MaxWait, "max-wait", 5*time.Minute, "report a job that waits longer than `TIME` (Q3)")
	f.DurationVar(&o.MaxPause, "max-pause", 24*time.Hour, "report a queue that is paused longer than `TIME` (Q2)")
	f.DurationVar(&o.MaxHold, "max-hold", 10*time.Minute, "report a lock that is held longer than `TIME` while others wait (X3)")
	f.DurationVar(&o.MaxRun, "max-run", time.Hour, "report a claimed job that has shown no progress for longer than `TIME` (J9)")
	f.Int64Var(&o.MaxHistory, "max-history", 1_000_000, "report when etcd keeps more than `N` revisions (E5)")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "give up after `TIME`")
	o.AddFlags(f)
	cmd.AddCommand(newDoctorChecks(a))
	return cmd
}

// check looks at the flags, and settles the format.
func (o *doctorOptions) check(a *cli.App, cmd *cobra.Command) error {
	set := cmd.Flags().Changed
	asked, err := a.Format(output.Table, output.JSON)
	switch {
	case err != nil && !set("format"):
		return exit.Usagef("--format "+doctorText, "%s is %q: doctor offers table and json, and more with --format", a.Settings.Source("output"), a.Settings.Output)
	case !slices.Contains(Formats, o.format):
		return exit.Usagef("--format "+doctorText, "--format is %q: want one of %s", o.format, strings.Join(Formats, ", "))
	case set("format") && a.Settings.Source("output") == "--output" && a.Settings.Output != "" && a.Settings.Output != o.format:
		return exit.Usagef("one of the two", "-o %s and --format %s contradict each other", a.Settings.Output, o.format)
	case set("format") && o.format != doctorJSON && a.Settings.Shape != nil:
		return exit.Usagef("--format json", "%s shapes JSON: it does not go with --format %s", a.Settings.Shape.Flag, o.format)
	case !set("format") && asked == output.JSON:
		o.format = doctorJSON
	}
	for i, code := range o.Skip {
		o.Skip[i] = strings.ToUpper(strings.TrimSpace(code))
		if why := doctor.LeftOut[o.Skip[i]]; why == "" && !doctor.KnownCode(o.Skip[i]) {
			return exit.Usagef("leasectl doctor checks", "--skip has %q, which is no check", code)
		}
	}
	for flag, d := range map[string]time.Duration{"window": o.Window, "max-wait": o.MaxWait, "max-pause": o.MaxPause, "max-hold": o.MaxHold, "max-run": o.MaxRun, "timeout": o.Timeout} {
		if d <= 0 {
			return exit.Usagef(cli.HelpOf(cmd), "--%s is %v: it must be positive", flag, d)
		}
	}
	switch {
	case o.MaxHistory <= 0:
		return exit.Usagef(cli.HelpOf(cmd), "--max-history is %d: it must be positive", o.MaxHistory)
	case 2*o.Window >= o.Timeout:
		return exit.Usagef("a larger --timeout", "--window is %v: twice that must be less than --timeout, which is %v", o.Window, o.Timeout)
	case o.fix && o.afterRestore:
		return exit.Usagef("one after the other", "--fix and --after-restore do not go together")
	case o.afterRestore && (len(o.Skip) > 0 || o.format != doctorText && o.format != doctorJSON):
		return exit.Usagef("--after-restore alone", "--after-restore checks nothing: it takes neither --skip nor --format %s", o.format)
	}
	return nil
}

// verdict turns the end of an examination into what monitoring expects, where it asked.
func (o *doctorOptions) verdict(a *cli.App, err error) error {
	var ended *exit.Ended
	if o.format != doctorNagios || err == nil || errors.As(err, &ended) {
		return err
	}
	code, word := 3, "UNKNOWN"
	if exit.Code(err) == exit.Unreachable {
		code, word = 2, "CRITICAL"
	}
	if werr := doctor.NagiosLine(a.Out, word, exit.Text(err), ""); werr != nil {
		return werr
	}
	return &exit.Ended{Code: code}
}

// runDoctor examines, prints, and with --fix asks and repairs.
func runDoctor(ctx context.Context, a *cli.App, o doctorOptions) error {
	e, err := examineCluster(ctx, a, o)
	if err != nil {
		return err
	}
	defer e.close()
	todo := 0
	if o.fix {
		todo = len(e.Report.Fixable())
	}
	if o.format == doctorText {
		if err := e.Report.Text(a.Out, doctor.TextOptions{Fixing: todo > 0, Colour: a.Colourful(a.Out)}); err != nil {
			return err
		}
	}
	if todo > 0 {
		if err := applyPlan(ctx, a, e, o, todo); err != nil {
			return err
		}
	}
	return finishDoctor(a, e.Report, o, todo)
}

// applyPlan shows what would be done, asks, and does it.
func applyPlan(ctx context.Context, a *cli.App, e *doctored, o doctorOptions, todo int) error {
	e.Report.Plan(a.Err)
	changes := fmt.Sprintf("%d changes", todo)
	if todo == 1 {
		changes = "1 change"
	}
	if err := a.Confirm(ctx, &o.Mutation, "Apply %s to %s", changes, e.where); err != nil || o.DryRun {
		return err
	}
	return e.Fix(ctx, workqueue.By{Actor: cli.Actor(), Reason: o.Reason})
}

// finishDoctor prints what is not printed yet, and returns the exit code.
func finishDoctor(a *cli.App, r *doctor.Report, o doctorOptions, todo int) error {
	var err error
	code := exit.OK
	switch o.format {
	case doctorText:
		if todo > 0 {
			err = r.Outcome(a.Out)
		}
	case doctorJSON:
		err = r.JSON(a.Out)
	case doctorMarkdown:
		err = r.Markdown(a.Out)
	case doctorPrometheus:
		err = r.Prometheus(a.Out)
	case doctorNagios:
		if code, err = r.Nagios(a.Out); err == nil && code != 0 {
			err = &exit.Ended{Code: code}
		}
		return err
	}
	if err != nil {
		return err
	}
	failed := slices.ContainsFunc(r.Findings, func(f *doctor.Finding) bool { return f.Status == doctor.Failed })
	switch {
	case r.Has("E6"):
		code = exit.Auth
	case r.Errors > 0:
		code = exit.Doctor
	case failed:
		code = exit.Partly
	}
	if code != exit.OK {
		return &exit.Ended{Code: code}
	}
	return nil
}

// examineCluster connects and looks. Where etcd has no leader it still asks the endpoints for their state.
func examineCluster(ctx context.Context, a *cli.App, o doctorOptions) (*doctored, error) {
	t, err := a.Settings.Target(ctx, a.Getenv)
	if err != nil {
		return nil, err
	}
	client, err := connect.Dial(ctx, t)
	if err != nil {
		err = fmt.Errorf("connect to etcd: %w", err)
		if exit.Code(err) != exit.Unreachable {
			return nil, err
		}
		// Logging in needs a leader; asking for the state does not.
		var bareErr error
		if client, bareErr = clientv3.New(clientv3.Config{Endpoints: t.Endpoints, TLS: t.TLS, DialTimeout: t.Timeout, Logger: zap.NewNop()}); bareErr != nil {
			return nil, err
		}
	}
	o.Root, o.User, o.Writes = t.Root, t.User, o.fix
	o.Explain = func(ctx context.Context, endpoint string) string {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return connect.Examine(ctx, endpoint, t.TLS).Cause
	}
	e, examErr := doctor.Run(ctx, client, o.Options)
	if examErr != nil {
		_ = client.Close()
		if errors.Is(examErr, doctor.ErrUnreachable) {
			examErr = &exit.Error{Code: exit.Unreachable, Err: cmp.Or(err, examErr)}
		}
		return nil, examErr
	}
	c := connect.Conn{Client: client, Endpoints: t.Endpoints, Root: t.Root, Context: t.Context}
	return &doctored{e, c.Where(), func() {
		_ = e.Close() // what repairs left ends with its lease
		_ = client.Close()
	}}, nil
}

// doctorCheck is a check as it is listed.
type doctorCheck struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // the worst that it reports; "none" for codes that are left out
	Fix      string `json:"fix"`      // what --fix does; empty: nothing
	Means    string `json:"means"`
}

func newDoctorChecks(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:     "checks",
		Short:   "List the codes of doctor, and what they mean",
		Example: "  leasectl doctor checks\n  leasectl doctor checks -o json",
		Args:    cli.Takes(),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.Printer(o)
			if err != nil {
				return err
			}
			return output.PrintList(p, doctorCheckView, doctorCheckItems())
		},
	}
	o.AddStaticFlags(cmd)
	return cmd
}

func doctorCheckItems() (items []doctorCheck) {
	for _, c := range doctor.Checks() {
		items = append(items, doctorCheck{c.Code, string(c.Severity), c.Fix, c.Means})
	}
	for code, why := range doctor.LeftOut {
		items = append(items, doctorCheck{Code: code, Severity: "none", Means: "not checked: " + why})
	}
	return items
}

var doctorCheckView = output.View[doctorCheck]{
	Name: func(c doctorCheck) string { return "check/" + c.Code },
	Columns: []output.Column[doctorCheck]{
		{Head: "CODE", Cell: func(c doctorCheck) string { return c.Code }},
		{Head: "SEVERITY", Cell: func(c doctorCheck) string { return c.Severity }},
		{Head: "FIX", Cell: func(c doctorCheck) string { return output.YesNo(c.Fix != "") }},
		{Head: "MEANS", Cell: func(c doctorCheck) string {
			if c.Fix != "" {
				return c.Means + "; --fix " + c.Fix
			}
			return c.Means
		}},
	},
}
