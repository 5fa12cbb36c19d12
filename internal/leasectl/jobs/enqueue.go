package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// enqueueOptions are the flags of enqueue.
type enqueueOptions struct {
	cli.Mutation
	id          string
	kind        string
	priority    int
	delay       time.Duration
	maxAttempts int
	timeout     time.Duration
	labels      []string
	wait        bool
	waitTimeout time.Duration
}

// NewEnqueue is leasectl enqueue.
func NewEnqueue(a *cli.App) *cobra.Command {
	var o enqueueOptions
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE [PAYLOAD|@FILE|-]",
		Short: "Put a job into a queue, or one per line of stdin",
		Long: `Put a job into a queue. The payload is the argument, the content of @FILE (@- is
stdin as a whole), or nothing. With - each line of stdin is a payload of its own,
in bulk, however many there are: those that cannot be enqueued are told on stderr
with their line number, and the exit code is 7. Blank lines are skipped, and neither
a carriage return at the end of a line nor a byte order mark in front of the first is
part of a payload; @- takes every byte.

Each new job is printed as job/QUEUE/ID. An --id that a live job has is a
conflict. TRACEPARENT, TRACESTATE and BAGGAGE of the caller go with the job.

--wait waits until the job is over and prints its result, byte for byte, as jobs
result does; the job itself is named on stderr. Exit codes are then: 0 it is done; 1
it is dead or cancelled; 3 it is gone, and was not kept long enough; 6 the
--wait-timeout is over. In the last case, and after Ctrl-C, the job goes on.`,
		GroupID: cli.GroupWork,
		Example: `  leasectl enqueue mail '{"to":"ana"}' --id welcome-7
  leasectl enqueue thumbnails @cat.png --kind resize --priority 5 --label size=small
  leasectl enqueue mail --delay 10m --max-attempts 3 --timeout 30s
  seq 100 | leasectl enqueue pages -
  leasectl enqueue thumbnails @cat.png --wait --wait-timeout 1m >thumbnail.png`,
		Args: cli.Takes("QUEUE", "[PAYLOAD|@FILE|-]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && o.id == "" {
				return exit.Usagef("--id ID, or no --id at all", "--id is empty: a name that a script forgot would be made up")
			}
			if err := checkWait(cmd, o.wait, "wait-timeout", o.waitTimeout); err != nil {
				return err
			}
			return runEnqueue(cmd.Context(), a, args, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "name the job `ID`, at most one live job of a queue (default: made up)")
	f.StringVar(&o.kind, "kind", "", "for the workers of `KIND`")
	f.IntVar(&o.priority, "priority", 0, "higher goes first")
	f.DurationVar(&o.delay, "delay", 0, "claimable only after `TIME`")
	f.IntVar(&o.maxAttempts, "max-attempts", 0, "dead after `N` failures (default 5)")
	f.DurationVar(&o.timeout, "timeout", 0, "stop an attempt after `TIME` (default: never)")
	f.StringArrayVar(&o.labels, "label", nil, "a label `KEY=VALUE`; may be repeated")
	f.BoolVar(&o.wait, "wait", false, "wait until the job is over, and print its result")
	f.DurationVar(&o.waitTimeout, "wait-timeout", 0, "with --wait: wait at most `TIME` (default: for ever)")
	o.AddFlags(f)
	f.Lookup("reason").Usage = "keep `TEXT` as the job's label \"reason\""
	return cmd
}

// params turns the flags into what every job of the call has in common.
func (o enqueueOptions) params(getenv func(string) string) (workqueue.Params, error) {
	p := workqueue.Params{ID: o.id, Kind: o.kind, Priority: o.priority, MaxAttempts: o.maxAttempts, Timeout: o.timeout, Trace: callerTrace(getenv)}
	if o.delay < 0 {
		return p, exit.Usagef("--delay 10m", "--delay is %v: it must not be negative", o.delay)
	}
	if o.delay > 0 {
		p.RunAt = time.Now().Add(o.delay)
	}
	labels := o.labels
	if o.Reason != "" {
		labels = append(labels, "reason="+o.Reason)
	}
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return p, exit.Usagef("--label KEY=VALUE", "--label %q is not KEY=VALUE", l)
		}
		if _, twice := p.Labels[key]; twice {
			return p, exit.Usagef("one of them", "label %q is given twice", key)
		}
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
	}
	return p, nil
}

// maxTraceText is what a job keeps of one trace variable.
const maxTraceText = 256

// callerTrace returns the trace context of the environment. A variable that the job could not keep is left out: what
// surrounds the call must not make it fail.
func callerTrace(getenv func(string) string) map[string]string {
	parent := getenv("TRACEPARENT")
	if parent == "" || len(parent) > maxTraceText || !utf8.ValidString(parent) {
		return nil
	}
	trace := map[string]string{"traceparent": parent}
	for _, key := range []string{"tracestate", "baggage"} {
		if v := getenv(strings.ToUpper(key)); v != "" && len(v) <= maxTraceText && utf8.ValidString(v) {
			trace[key] = v
		}
	}
	return trace
}

func runEnqueue(ctx context.Context, a *cli.App, args []string, o enqueueOptions) error {
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	p, err := o.params(a.Getenv)
	if err != nil {
		return err
	}
	source := ""
	if len(args) == 2 {
		source = args[1]
	}
	if source == "-" && o.id != "" {
		return exit.Usagef("the same without --id", "--id names one job, but - makes one of each line")
	}
	if source == "-" && o.wait {
		return exit.Usagef("leasectl queues drain --help, or one job at a time", "--wait waits for one job, but - makes one of each line")
	}
	if source != "-" { // before connecting: a file that cannot be read is known at once
		if p.Payload, err = readPayload(a, source); err != nil {
			return err
		}
	}
	return a.WithQueue(ctx, args[0], func(c *connect.Conn, q *workqueue.Queue) error {
		if source == "-" {
			return enqueueLines(ctx, a, q, p, format, o.DryRun)
		}
		j, err := enqueueOne(ctx, a, q, p, o.DryRun)
		switch {
		case err != nil || o.DryRun:
			return err
		case o.wait:
			return awaitResult(ctx, a, c, q, j, format, o.waitTimeout)
		case format == output.JSON:
			return output.Told(cli.NameOf(j)+" is enqueued", Print(a, format, j))
		}
		return output.Told(cli.NameOf(j)+" is enqueued", a.PrintLine(cli.NameOf(j)))
	})
}

// readPayload returns the payload that an argument stands for.
func readPayload(a *cli.App, source string) ([]byte, error) {
	path, isFile := strings.CutPrefix(source, "@")
	if !isFile {
		return []byte(source), nil
	}
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Usagef("", "payload file: %v", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, cli.MaxPayload+1)) // one more, so that the library says that it is too much
	if err != nil {
		return nil, exit.Usagef("", "payload file %s: %v", path, err)
	}
	if len(b) > cli.MaxPayload {
		return nil, exit.Usagef("a reference instead of the data", "payload file %s is larger than %d bytes", path, cli.MaxPayload)
	}
	return b, nil
}

func enqueueOne(ctx context.Context, a *cli.App, q *workqueue.Queue, p workqueue.Params, dryRun bool) (*workqueue.Job, error) {
	if dryRun {
		return nil, dryEnqueue(ctx, a, q, p)
	}
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	j, err := q.Enqueue(ctx, p)
	return j, existsHint(err)
}

// awaitResult waits for the end of a job that was made just now, and prints its result.
func awaitResult(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, made *workqueue.Job, format string, timeout time.Duration) error {
	a.Notef("%s", cli.NameOf(made))
	j, err := awaitState(ctx, a, c, q, awaited{ref: cli.JobRef{Queue: made.Queue, ID: made.ID}, met: made, timeout: timeout})
	if err != nil {
		return err
	}
	return printResult(a, format, j)
}

// existsHint names the job in the way, for an enqueue that met one.
func existsHint(err error) error {
	var exists *workqueue.ExistsError
	if errors.As(err, &exists) {
		return &exit.Error{Err: err, Try: "another --id, or leasectl jobs get " + escape.Shell(cli.TextOf(exists.Job))}
	}
	return err
}

// dryEnqueue checks what enqueueOne would be told, and writes nothing.
func dryEnqueue(ctx context.Context, a *cli.App, q *workqueue.Queue, p workqueue.Params) error {
	if _, _, _, err := q.EnqueueOps(p); err != nil {
		return err
	}
	if p.ID == "" {
		a.Notef("would enqueue a job of %d bytes to %s", len(p.Payload), q.Name())
		return nil
	}
	j, err := Get(ctx, a, q, cli.JobRef{Queue: q.Name(), ID: p.ID})
	switch {
	case errors.Is(err, workqueue.ErrNotFound):
	case err != nil:
		return err
	case j.State.Live():
		return existsHint(fmt.Errorf("enqueue job %s to %s: %w", p.ID, q.Name(), &workqueue.ExistsError{Job: j}))
	}
	a.Notef("would enqueue %s of %d bytes", cli.JobRef{Queue: q.Name(), ID: p.ID}.Name(), len(p.Payload))
	return nil
}
