// Package dump writes queues to a file and reads them back: leasectl export and import.
package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// NewExport is leasectl export.
func NewExport(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [QUEUE...]",
		Short: "Write the jobs of queues out, one line of JSON each",
		Long: `Write the jobs of queues out, of all queues without an argument: one line of JSON per
job, with payload, progress and trail, live ones in the order of the queue, then
dead, then done ones. Each queue is read at one revision. leasectl import takes the
lines. The config of a queue, claims and refused writes do not go with the jobs.

A record that cannot be read is left out and told on stderr, and so is a job that
changed when etcd had compacted that revision before its payload was read; the exit
code is 7.
When there is no queue of a name, nothing is written; the exit code is 3.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl export mail >mail.ndjson
  leasectl export --file all.ndjson
  leasectl export mail | jq -c 'select(.where == "dead")' >dead.ndjson`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(cmd.Context(), a, args, file)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "write to `FILE`, which is replaced once all is there; - is stdout")
	return cmd
}

func runExport(ctx context.Context, a *cli.App, queues []string, file string) error {
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		for _, name := range queues {
			if err := a.NeedQueue(ctx, c, name); err != nil {
				return err
			}
		}
		if len(queues) == 0 {
			var err error
			if queues, err = a.QueueNames(ctx, c); err != nil {
				return err
			}
		}
		switch info, err := os.Stat(file); {
		case file == "" || file == "-":
			return exportTo(ctx, a, c, queues, a.Out)
		case err == nil && !info.Mode().IsRegular(): // a device, a pipe: it is written to, not replaced
			return exportInto(ctx, a, c, queues, file)
		}
		if target, err := filepath.EvalSymlinks(file); err == nil {
			file = target
		}
		return replaceFile(file, func(w io.Writer) error { return exportTo(ctx, a, c, queues, w) })
	})
}

// exportInto writes to what is there and is no regular file.
func exportInto(ctx context.Context, a *cli.App, c *connect.Conn, queues []string, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = exportTo(ctx, a, c, queues, f)
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("write %s: %w", path, cerr))
	}
	return err
}

// replaceFile writes a file that is there whole or not at all. A partly failed write leaves what could be written.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone when all went well
	err = write(tmp)
	var f *exit.Error
	if err != nil && !(errors.As(err, &f) && f.Code == exit.Partly) {
		return errors.Join(err, tmp.Close())
	}
	if werr := errors.Join(tmp.Sync(), tmp.Close()); werr != nil {
		return fmt.Errorf("write %s: %w", path, werr)
	}
	if werr := os.Rename(tmp.Name(), path); werr != nil {
		return fmt.Errorf("write %s: %w", path, werr)
	}
	return err
}

func exportTo(ctx context.Context, a *cli.App, c *connect.Conn, queues []string, out io.Writer) error {
	w := bufio.NewWriterSize(out, 64<<10)
	var sum exportCount
	for _, queue := range queues {
		if err := exportQueue(ctx, a, c, queue, w, &sum); err != nil {
			return errors.Join(err, w.Flush())
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	a.Notef("%s: exported %s of %s", c.Where(), output.Count(sum.written, "job"), output.Count(len(queues), "queue"))
	return sum.verdict()
}

// exportCount is what was written, and what was left out, and why.
type exportCount struct{ written, unread, changed int }

func (e exportCount) verdict() error {
	switch {
	case e.unread > 0 && e.changed > 0:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s left out, which cannot be read, and %s, which changed meanwhile", output.Count(e.unread, "record"), output.Count(e.changed, "job")), Try: "leasectl doctor, and once more"}
	case e.unread > 0:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s left out, which cannot be read", output.Count(e.unread, "record")), Try: "leasectl doctor"}
	case e.changed > 0:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%s left out, which changed meanwhile", output.Count(e.changed, "job")), Try: "once more; if it comes again, a longer --auto-compaction-retention of etcd"}
	}
	return nil
}

func exportQueue(ctx context.Context, a *cli.App, c *connect.Conn, queue string, w *bufio.Writer, sum *exportCount) error {
	q, err := a.OpenQueue(ctx, c, queue, nil)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // nothing was written to etcd
	for line, err := range admin.Export(ctx, q) {
		switch {
		case cli.Unreadable(err):
			sum.unread++
			a.Notef("warning: %s", exit.Text(err))
			continue
		case errors.Is(err, workqueue.ErrConflict):
			sum.changed++
			a.Notef("warning: %s", exit.Text(err))
			continue
		case err != nil:
			return err
		}
		sum.written++
		if _, err = w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}
