package leasectl

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

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

// enqueueOptions are the flags of enqueue.
type enqueueOptions struct {
	mutation
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

func newEnqueue(a *app) *cobra.Command {
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
		GroupID: groupWork,
		Example: `  leasectl enqueue mail '{"to":"ana"}' --id welcome-7
  leasectl enqueue thumbnails @cat.png --kind resize --priority 5 --label size=small
  leasectl enqueue mail --delay 10m --max-attempts 3 --timeout 30s
  seq 100 | leasectl enqueue pages -
  leasectl enqueue thumbnails @cat.png --wait --wait-timeout 1m >thumbnail.png`,
		Args: takes("QUEUE", "[PAYLOAD|@FILE|-]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && o.id == "" {
				return usagef("--id ID, or no --id at all", "--id is empty: a name that a script forgot would be made up")
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
	o.addFlags(f)
	f.Lookup("reason").Usage = "keep `TEXT` as the job's label \"reason\""
	return cmd
}

// params turns the flags into what every job of the call has in common.
func (o enqueueOptions) params(getenv func(string) string) (workqueue.Params, error) {
	p := workqueue.Params{ID: o.id, Kind: o.kind, Priority: o.priority, MaxAttempts: o.maxAttempts, Timeout: o.timeout, Trace: callerTrace(getenv)}
	if o.delay < 0 {
		return p, usagef("--delay 10m", "--delay is %v: it must not be negative", o.delay)
	}
	if o.delay > 0 {
		p.RunAt = time.Now().Add(o.delay)
	}
	labels := o.labels
	if o.reason != "" {
		labels = append(labels, "reason="+o.reason)
	}
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return p, usagef("--label KEY=VALUE", "--label %q is not KEY=VALUE", l)
		}
		if _, twice := p.Labels[key]; twice {
			return p, usagef("one of them", "label %q is given twice", key)
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

func runEnqueue(ctx context.Context, a *app, args []string, o enqueueOptions) error {
	format, err := a.format(resultFormats...)
	if err != nil {
		return err
	}
	p, err := o.params(a.getenv)
	if err != nil {
		return err
	}
	source := ""
	if len(args) == 2 {
		source = args[1]
	}
	if source == "-" && o.id != "" {
		return usagef("the same without --id", "--id names one job, but - makes one of each line")
	}
	if source == "-" && o.wait {
		return usagef("leasectl queues drain --help, or one job at a time", "--wait waits for one job, but - makes one of each line")
	}
	if source != "-" { // before connecting: a file that cannot be read is known at once
		if p.Payload, err = readPayload(a, source); err != nil {
			return err
		}
	}
	return a.withQueue(ctx, args[0], func(c *connection, q *workqueue.Queue) error {
		if source == "-" {
			return enqueueLines(ctx, a, q, p, format, o.dryRun)
		}
		j, err := enqueueOne(ctx, a, q, p, o.dryRun)
		switch {
		case err != nil || o.dryRun:
			return err
		case o.wait:
			return awaitResult(ctx, a, c, q, j, format, o.waitTimeout)
		case format == formatJSON:
			return told(nameOf(j)+" is enqueued", printJob(a, format, j))
		}
		return told(nameOf(j)+" is enqueued", a.printLine(nameOf(j)))
	})
}

// readPayload returns the payload that an argument stands for.
func readPayload(a *app, source string) ([]byte, error) {
	path, isFile := strings.CutPrefix(source, "@")
	if !isFile {
		return []byte(source), nil
	}
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usagef("", "payload file: %v", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPayload+1)) // one more, so that the library says that it is too much
	if err != nil {
		return nil, usagef("", "payload file %s: %v", path, err)
	}
	if len(b) > maxPayload {
		return nil, usagef("a reference instead of the data", "payload file %s is larger than %d bytes", path, maxPayload)
	}
	return b, nil
}

func enqueueOne(ctx context.Context, a *app, q *workqueue.Queue, p workqueue.Params, dryRun bool) (*workqueue.Job, error) {
	if dryRun {
		return nil, dryEnqueue(ctx, a, q, p)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	j, err := q.Enqueue(ctx, p)
	return j, existsHint(err)
}

// awaitResult waits for the end of a job that was made just now, and prints its result.
func awaitResult(ctx context.Context, a *app, c *connection, q *workqueue.Queue, made *workqueue.Job, format string, timeout time.Duration) error {
	a.notef("%s", nameOf(made))
	j, err := awaitState(ctx, a, c, q, awaited{ref: jobRef{made.Queue, made.ID}, met: made, timeout: timeout})
	if err != nil {
		return err
	}
	return printResult(a, format, j)
}

// existsHint names the job in the way, for an enqueue that met one.
func existsHint(err error) error {
	var exists *workqueue.ExistsError
	if errors.As(err, &exists) {
		return &failure{err: err, try: "another --id, or leasectl jobs get " + escape.Shell(refText(exists.Job))}
	}
	return err
}

// dryEnqueue checks what enqueueOne would be told, and writes nothing.
func dryEnqueue(ctx context.Context, a *app, q *workqueue.Queue, p workqueue.Params) error {
	if _, _, _, err := q.EnqueueOps(p); err != nil {
		return err
	}
	if p.ID == "" {
		a.notef("would enqueue a job of %d bytes to %s", len(p.Payload), q.Name())
		return nil
	}
	j, err := getJob(ctx, a, q, jobRef{q.Name(), p.ID})
	switch {
	case errors.Is(err, workqueue.ErrNotFound):
	case err != nil:
		return err
	case j.State.Live():
		return existsHint(fmt.Errorf("enqueue job %s to %s: %w", p.ID, q.Name(), &workqueue.ExistsError{Job: j}))
	}
	a.notef("would enqueue %s of %d bytes", jobRef{q.Name(), p.ID}.name(), len(p.Payload))
	return nil
}
