package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/simulate"
)

// ReadmeScenario is the story for newcomers: several scenarios, told one by one.
const ReadmeScenario = "readme"

// NewSimulate is leasectl simulate.
func NewSimulate(a *cli.App) *cobra.Command {
	s := simulate.Defaults()
	var modes []string
	report := ""
	cmd := &cobra.Command{
		Use:     "simulate",
		Short:   "Race three ways to share work: no coordination, claims, a dispatcher",
		Long:    simulateLong(),
		GroupID: cli.GroupLocal,
		Example: `  leasectl simulate --scenario readme              # the two-minute story
  leasectl simulate --trials 10
  leasectl simulate --report race.html             # 100 trials a mode
  leasectl simulate --trials 1 --report race.svg   # a picture of one
  leasectl simulate --scenario freeze,partition --mode claim -o json
  leasectl simulate --gap 0s --trials 10           # what is left without coordination when nobody dawdles
  leasectl simulate --lease 2s --job 1s..3s --time-scale 1`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, m := range modes {
				s.Modes = append(s.Modes, simulate.Mode(m))
			}
			if slices.Contains(s.Scenarios, ReadmeScenario) && !cmd.Flags().Changed("trials") {
				s.Trials = simulate.ReadmeTrials
			}
			return runSimulate(cmd.Context(), a, s, report)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&modes, "mode", nil, "race `MODES` of naive, claim and dispatch (default: all that the scenario has)")
	f.StringSliceVar(&s.Scenarios, "scenario", s.Scenarios, "race in `SCENARIOS`, or "+ReadmeScenario)
	f.IntVar(&s.Trials, "trials", s.Trials, "race `N` trials a mode and scenario")
	f.IntVar(&s.Agents, "agents", s.Agents, "let `N` agents share the jobs")
	f.IntVar(&s.Jobs, "jobs", s.Jobs, "share `N` jobs in each trial")
	f.Var(&s.Job, "job", "let jobs take `TIME`, or MIN..MAX")
	f.Var(&s.Gap, "gap", "let naive agents wait `TIME`, or MIN..MAX, between reading \"open\" and writing \"taken\"")
	f.DurationVar(&s.Jitter, "jitter", s.Jitter, "let all agents start within `TIME`")
	f.DurationVar(&s.Lease, "lease", s.Lease, "end a dead agent's session after `TIME`; scaled, it must be whole seconds")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "make lengths, gaps and faults from seed `N`")
	f.Float64Var(&s.TimeScale, "time-scale", s.TimeScale, "multiply every duration by `S`")
	f.IntVar(&s.Parallel, "parallel", s.Parallel, "race `N` trials at a time")
	f.StringVar(&report, "report", "", "write a page with timelines and distributions to `FILE`; the timelines alone when it ends in .svg")
	return cmd
}

func simulateLong() string {
	var b strings.Builder
	b.WriteString(`Race three ways of sharing jobs among agents on an embedded etcd, with the real
library, and show the figures beside those of ` + simulate.PublishedSource + `:

  naive     read that a job is open, then write that it is taken
  claim     every agent claims for itself, on its lease
  dispatch  one elected dispatcher hands out

The scenarios:

`)
	for _, name := range simulate.Scenarios() {
		writeEntry(&b, name, simulate.About(name))
	}
	writeEntry(&b, ReadmeScenario, "Several of them, told one by one, in two minutes.")
	b.WriteString(`
Times are divided by --time-scale, except the time of a claim: CLAIM is of the race,
where --parallel trials share this machine, CLAIM-ALONE of one agent while nothing
else runs. REQUESTS are what agents and dispatchers ask of etcd for each job: lists,
polls and watches; heartbeats and other words about leases; writes. The same seed
makes the same plan. Late results accepted are counted from etcd's own history.

--job, --gap, --jitter and --lease make another race than the published one, whose
figures are then not shown.

Exit 0 only if claim and dispatch finished every job, none of them twice, accepted
no late result or assignment, and had every outside effect once.`)
	return b.String()
}

// writeEntry writes a name and, in lines of its own column, what it is.
func writeEntry(b *strings.Builder, name, about string) {
	const column, width = 13, 80
	at := column
	fmt.Fprintf(b, "  %-*s", column-2, name)
	for i, word := range strings.Fields(about) {
		switch {
		case at+1+len(word) > width:
			fmt.Fprintf(b, "\n%*s", column, "")
			at = column
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteByte('\n')
}

func runSimulate(ctx context.Context, a *cli.App, s simulate.Settings, path string) error {
	story := slices.Contains(s.Scenarios, ReadmeScenario)
	if err := checkRace(s, story); err != nil {
		return err
	}
	format, err := a.Format(output.Table, output.JSON)
	if err != nil {
		return err
	}
	file, err := openReport(path)
	if err != nil {
		return err
	}
	defer file.discard()
	r, err := race(ctx, a, s, story)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if err := file.write(r); err != nil {
		return err
	}
	if format == output.JSON {
		err = output.PrintJSON(a.Out, r)
	} else {
		err = output.PrintList(output.Printer{W: a.Out, Format: format}, simulateView, simulateRows(r))
	}
	if err != nil {
		return err
	}
	if format == output.Table {
		a.Notef("times are divided by the time scale of %g, claim times are not", s.TimeScale)
		a.Notef("claim: with %d trials at a time on this machine; claim-alone: one agent, nothing else", s.Parallel)
		a.Notef("requests per job: reads/heartbeats/writes")
		if r.HasPublished() {
			a.Notef("published: %s, %s", simulate.PublishedSource, simulate.PublishedClock)
		}
	}
	for _, c := range r.NotShown() {
		a.Notef("not shown in every trial: %s, %s: %s: %s", c.Scenario, c.Mode, c.Claim, c.Found)
	}
	if err := r.Failed(); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}

// checkRace turns what cannot be raced into usage errors.
func checkRace(s simulate.Settings, story bool) error {
	if story {
		if len(s.Scenarios) > 1 || len(s.Modes) > 0 {
			return exit.Usagef("--scenario "+ReadmeScenario, "--scenario %s tells a story of its own: it goes without other scenarios and without --mode", ReadmeScenario)
		}
		s.Scenarios = simulate.Defaults().Scenarios
	}
	err := s.Validate()
	var bad *simulate.SettingError
	if errors.As(err, &bad) {
		return exit.Usagef(bad.Try, "%s", bad)
	}
	return err
}

func race(ctx context.Context, a *cli.App, s simulate.Settings, story bool) (*simulate.Report, error) {
	tell := func(p simulate.Progress) {
		left := ""
		if p.Left > 0 {
			left = fmt.Sprintf(", about %v left", p.Left.Round(time.Second))
		}
		a.Notef("%d of %d trials done, %d racing (%s) after %v%s", p.Done, p.Total, p.Running, p.Scenario, p.Elapsed.Round(time.Second), left)
	}
	if story {
		return simulate.Story(ctx, s, tell, func(line string) { a.Notef("%s", line) })
	}
	return simulate.Run(ctx, s, tell)
}

// reportFile is where the page goes. It is opened before the race, so that a path that
// cannot be written does not cost minutes, and left as it was when the race fails.
type reportFile struct {
	path string
	file *os.File // nil: no report was asked for, or it is written
	made bool
}

func openReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
	}
	_, err := os.Stat(path)
	made := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, exit.Usagef("a path that can be written", "--report: %w", err)
	}
	return &reportFile{path: path, file: f, made: made}, nil
}

// write writes the page, or the picture.
func (r *reportFile) write(report *simulate.Report) error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		if err := f.Truncate(0); err != nil {
			return fmt.Errorf("write report: %w", errors.Join(err, f.Close()))
		}
	}
	draw := report.WriteHTML
	if strings.EqualFold(filepath.Ext(r.path), ".svg") {
		draw = report.WriteSVG
	}
	if err := cmp.Or(draw(f), f.Close()); err != nil {
		return fmt.Errorf("write report %s: %w", r.path, err)
	}
	return nil
}

// discard gives up a report that was not written.
func (r *reportFile) discard() {
	if r.file == nil {
		return
	}
	_ = r.file.Close()
	if r.made {
		_ = os.Remove(r.path)
	}
}
