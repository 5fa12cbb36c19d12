package jobs

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// editOptions are the flags of jobs edit.
type editOptions struct {
	priority    int
	runAt       string
	delay       time.Duration
	maxAttempts int
	labels      []string
	force       bool
}

// jobEdit is what is to become of a job.
type jobEdit struct {
	changes []func(*workqueue.Params)
}

func newJobsEdit(a *cli.App) *cobra.Command {
	var o editOptions
	shape := repairShape{more: []string{"[PAYLOAD|@FILE|-]"}, bind: func(cmd *cobra.Command, args []string) (Repair, error) {
		return newEdit(a, cmd, args, o)
	}}
	cmd := newRepairOf(a, shape, &cobra.Command{
		Use:   "edit QUEUE/ID [PAYLOAD|@FILE|-]",
		Short: "Describe a waiting job anew: its payload, when it runs, its labels",
		Long: `Describe a job anew that waits: its payload, which is the argument, the content of
@FILE, or stdin for -; or what the flags say. Without any of them the payload is
opened in $EDITOR. All else stays as it is, the job's place in the queue too, and
its idempotency key.

A claimed job is a conflict, unless --break-claim takes it from its owner, whose
result is refused from then on.`,
		Example: `  leasectl jobs edit mail/welcome-7 '{"to":"ana@b.example"}' --reason "typo"
  leasectl jobs edit mail/welcome-7 --priority 9 --delay 0s
  leasectl jobs edit mail/welcome-7 --label tenant=42 --label draft-
  leasectl jobs edit mail/welcome-7            # opens $EDITOR`,
	})
	f := cmd.Flags()
	f.IntVar(&o.priority, "priority", 0, "higher goes first")
	f.StringVar(&o.runAt, "run-at", "", "claimable from `TIME` on, such as 2026-01-31T08:00:00Z")
	f.DurationVar(&o.delay, "delay", 0, "claimable only after `TIME` from now; 0s is at once")
	f.IntVar(&o.maxAttempts, "max-attempts", 0, "dead after `N` failures; 0 means 5")
	f.StringArrayVar(&o.labels, "label", nil, "set a label, `KEY=VALUE`, or take it away, KEY-; may be repeated")
	f.BoolVar(&o.force, "break-claim", false, "take it from its owner, if it is claimed")
	return cmd
}

// newEdit reads the flags and the payload, before anything is asked of etcd.
func newEdit(a *cli.App, cmd *cobra.Command, args []string, o editOptions) (Repair, error) {
	e := &jobEdit{}
	if err := e.readFlags(cmd, o); err != nil {
		return Repair{}, err
	}
	r := Repair{
		verb: "edit", past: "edited", breaks: o.force, hint: claimedHint("edit"),
		Able: func(j *workqueue.Job) bool { return j.State.Live() && (j.Owner == "" || o.force) },
		do: func(ctx context.Context, q *workqueue.Queue, id string, by workqueue.By) (*workqueue.Job, error) {
			return admin.Edit(ctx, q, id, e.apply, by)
		},
	}
	switch {
	case len(args) == 2:
		source := args[1]
		if source == "-" {
			source = "@-"
		}
		payload, err := readPayload(a, source)
		if err != nil {
			return r, err
		}
		e.setPayload(payload)
	case len(e.changes) == 0:
		editor, err := editor(a)
		if err != nil {
			return r, err
		}
		dryRun := cli.IsSet(cmd, "dry-run")
		r.prepare = func(ctx context.Context, seen *workqueue.Job) error {
			if dryRun {
				return nil
			}
			payload, err := editText(ctx, a, editor, seen.Payload)
			if err != nil {
				return err
			}
			if bytes.Equal(payload, seen.Payload) {
				return &exit.Error{Code: exit.Failed, Err: errUnedited}
			}
			e.setPayload(payload)
			return nil
		}
	}
	return r, nil
}

func (e *jobEdit) apply(p *workqueue.Params) error {
	for _, change := range e.changes {
		change(p)
	}
	return nil
}

func (e *jobEdit) add(change func(*workqueue.Params)) { e.changes = append(e.changes, change) }

func (e *jobEdit) setPayload(b []byte) { e.add(func(p *workqueue.Params) { p.Payload = b }) }

func (e *jobEdit) readFlags(cmd *cobra.Command, o editOptions) error {
	given := cmd.Flags().Changed
	if given("priority") {
		e.add(func(p *workqueue.Params) { p.Priority = o.priority })
	}
	if given("max-attempts") {
		e.add(func(p *workqueue.Params) { p.MaxAttempts = o.maxAttempts })
	}
	switch {
	case given("run-at") && given("delay"):
		return exit.Usagef("one of them", "--run-at and --delay both say when")
	case given("run-at"):
		at, err := time.Parse(time.RFC3339, o.runAt)
		if err != nil {
			return exit.Usagef("--run-at "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--run-at is %q: want a date, a time and a zone", o.runAt)
		}
		e.add(func(p *workqueue.Params) { p.RunAt = at })
	case given("delay"):
		if o.delay < 0 {
			return exit.Usagef("--delay 10m", "--delay is %v: it must not be negative", o.delay)
		}
		at := time.Now().Add(o.delay)
		e.add(func(p *workqueue.Params) { p.RunAt = at })
	}
	return e.readLabels(o.labels)
}

func (e *jobEdit) readLabels(labels []string) error {
	set := map[string]string{}
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		gone := false
		if !ok {
			key, gone = strings.CutSuffix(l, "-")
		}
		if key == "" || !ok && !gone {
			return exit.Usagef("--label KEY=VALUE, or KEY-", "--label %q is neither KEY=VALUE nor KEY-", l)
		}
		if _, twice := set[key]; twice {
			return exit.Usagef("one of them", "label %q is given twice", key)
		}
		set[key] = value
		e.add(func(p *workqueue.Params) {
			if gone {
				delete(p.Labels, key)
				return
			}
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[key] = value
		})
	}
	return nil
}
