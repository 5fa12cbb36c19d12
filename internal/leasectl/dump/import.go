package dump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// What import does with a job whose ID another one has.
const (
	conflictFail    = "fail"
	conflictSkip    = "skip"
	conflictReplace = "replace"
)

// Conflicts are what --on-conflict takes.
var Conflicts = []string{conflictFail, conflictSkip, conflictReplace}

// maxExportLine bounds one line of an import: a payload in base64, a result, progress, a checkpoint and the trail.
const maxExportLine = 4 << 20

type importOptions struct {
	cli.Mutation
	onConflict string
	queue      string
}

// NewImport is leasectl import.
func NewImport(a *cli.App) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Put jobs back that export wrote",
		Long: `Put jobs back that leasectl export wrote, each into its queue, where it was, with its
trail, live ones in the order of the lines. A job that was claimed comes as ready.

An import that broke off is run again: a job that is there already, the very same
one, is counted and left alone. For another job of the same ID --on-conflict says
what happens: fail tells it and goes on with the rest (exit code 7), skip leaves
what is there, replace puts the imported one in its place, unless that is claimed.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl import mail.ndjson --dry-run
  leasectl import mail.ndjson --yes --reason "moved to the new cluster"
  leasectl export mail --context old | leasectl import - --context new --yes`,
		Args: cli.Takes("FILE|-"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(Conflicts, o.onConflict) {
				return exit.Usagef("--on-conflict fail", "--on-conflict is %q: it is fail, skip or replace", o.onConflict)
			}
			return runImport(cmd.Context(), a, args[0], o)
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.onConflict, "on-conflict", conflictFail, "for a job whose ID another one has: `WHAT` is fail, skip or replace")
	cmd.Flags().StringVar(&o.queue, "queue", "", "put all jobs into `QUEUE`, whatever queue they came from")
	return cmd
}

func runImport(ctx context.Context, a *cli.App, path string, o importOptions) error {
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return connect.FileError("FILE", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		a.Notef("%s: %simport the jobs in %s", c.Where(), o.Would(), path)
		if err := a.Confirm(ctx, &o.Mutation, "Import the jobs in %s into %s", path, c.Where()); err != nil {
			return err
		}
		im := &importer{a: a, c: c, o: o, queues: map[string]*workqueue.Queue{}}
		defer im.close()
		return im.run(ctx, in)
	})
}

// importer puts lines back and counts what became of them.
type importer struct {
	a      *cli.App
	c      *connect.Conn
	o      importOptions
	queues map[string]*workqueue.Queue

	imported, there, skipped, failed int
}

func (im *importer) close() {
	for _, q := range im.queues {
		_ = q.Close() // every outcome is known by now
	}
}

func (im *importer) run(ctx context.Context, in io.Reader) error {
	lines := cli.ReadLines(ctx, in, maxExportLine)
	var err error
	for chunk := range lines.Chunks {
		if err == nil {
			err = im.chunk(ctx, chunk)
		} // else let the reader end
	}
	if err == nil {
		err = lines.Err
	}
	verb := "imported"
	if im.o.DryRun {
		verb = "would import"
	}
	im.a.Notef("%s %s, %d were there already, %d skipped, %d failed", verb, output.Count(im.imported, "job"), im.there, im.skipped, im.failed)
	switch {
	case err != nil:
		return fmt.Errorf("import: %w", err)
	case im.failed > 0:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s not imported", output.Count(im.failed, "line"))}
	}
	return nil
}

// exportedLine is what import needs to know of a line before the library reads it.
type exportedLine struct {
	Queue  string `json:"queue"`
	Record struct {
		ID   string `json:"id"`
		Born string `json:"born"`
	} `json:"record"`
}

// chunk imports lines, those of one queue together.
func (im *importer) chunk(ctx context.Context, lines []cli.InputLine) error {
	for len(lines) > 0 {
		queue, n := im.queueOf(lines[0]), 1
		for n < len(lines) && im.queueOf(lines[n]) == queue {
			n++
		}
		if err := im.batch(ctx, queue, lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (im *importer) queueOf(l cli.InputLine) string {
	if im.o.queue != "" {
		return im.o.queue
	}
	var e exportedLine
	if json.Unmarshal(l.Text, &e) != nil {
		return ""
	}
	return e.Queue
}

func (im *importer) batch(ctx context.Context, queue string, lines []cli.InputLine) error {
	if queue == "" {
		for _, l := range lines {
			im.fail(l, errors.New("it is no exported job"))
		}
		return nil
	}
	q, err := im.open(ctx, queue)
	if err != nil {
		return err
	}
	if im.o.DryRun {
		return im.look(ctx, q, lines)
	}
	for part := range slices.Chunk(lines, importAtOnce) {
		if err := im.put(ctx, q, part); err != nil {
			return err
		}
	}
	return nil
}

// importAtOnce is how many jobs are under way together: as many as etcd puts in far less than a dial timeout.
const importAtOnce = 500

// put imports a few lines. When etcd does not answer in time, nobody can know about them; to try again is safe.
func (im *importer) put(ctx context.Context, q *workqueue.Queue, lines []cli.InputLine) error {
	var raw [][]byte
	for _, l := range lines {
		raw = append(raw, l.Text)
	}
	by := workqueue.By{Actor: cli.Actor(), Reason: im.o.Reason}
	bounded, cancel := im.a.Bounded(ctx)
	defer cancel()
	for i, err := range admin.Import(bounded, q, raw, im.o.onConflict == conflictReplace, by) {
		if !errors.Is(err, coord.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			im.count(lines[i], err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return &exit.Error{
			Code: exit.Unreachable, Err: fmt.Errorf("etcd gives no answer, so lines %d to %d may be there or not", lines[0].Number, lines[len(lines)-1].Number),
			Try: "the same command again: what is there already is left alone",
		}
	}
	return nil
}

func (im *importer) open(ctx context.Context, queue string) (*workqueue.Queue, error) {
	if q := im.queues[queue]; q != nil {
		return q, nil
	}
	q, err := im.a.OpenQueue(ctx, im.c, queue, nil)
	if err == nil {
		im.queues[queue] = q
	}
	return q, err
}

// look says what an import would do, as far as can be known without trying.
func (im *importer) look(ctx context.Context, q *workqueue.Queue, lines []cli.InputLine) error {
	for _, l := range lines {
		var e exportedLine
		if json.Unmarshal(l.Text, &e) != nil || e.Record.ID == "" {
			im.fail(l, errors.New("it is no exported job"))
			continue
		}
		bounded, cancel := im.a.Bounded(ctx)
		j, err := q.Get(bounded, e.Record.ID)
		cancel()
		switch {
		case errors.Is(err, workqueue.ErrNotFound):
			im.count(l, nil)
		case err != nil:
			return err
		case im.o.onConflict == conflictReplace && j.Born != e.Record.Born && j.State != workqueue.StateClaimed && j.State != workqueue.StateOrphan:
			im.count(l, nil)
		default:
			im.count(l, &workqueue.ExistsError{Job: j})
		}
	}
	return nil
}

func (im *importer) count(l cli.InputLine, err error) {
	var exists *workqueue.ExistsError
	var e exportedLine
	switch {
	case err == nil:
		im.imported++
	case errors.As(err, &exists) && json.Unmarshal(l.Text, &e) == nil && exists.Job.Born == e.Record.Born:
		im.there++
	case exists != nil && im.o.onConflict == conflictSkip:
		im.skipped++
	default:
		im.fail(l, err)
	}
}

// toldFailures bounds the lines on stderr: a wrong file has as many failures as lines.
const toldFailures = 20

func (im *importer) fail(l cli.InputLine, err error) {
	im.failed++
	switch {
	case l.Size > len(l.Text):
		err = fmt.Errorf("it has %d bytes, more than any job", l.Size)
	case im.failed == toldFailures+1:
		im.a.Notef("more lines failed, which are only counted")
	}
	if im.failed <= toldFailures {
		im.a.Notef("line %d: %s", l.Number, exit.Text(err))
	}
}
