package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// chunkTimeout bounds the writing of one chunk: much longer than etcd needs, so that it ends only a call whose etcd is
// gone.
const chunkTimeout = 20 * time.Second

// bulk is one enqueue of many lines.
type bulk struct {
	a      *cli.App
	q      *workqueue.Queue
	common workqueue.Params
	dryRun bool
	print  *jobStream

	enqueued, failed int
}

// enqueueLines makes a job of each line of stdin. Each succeeds or fails alone.
func enqueueLines(ctx context.Context, a *cli.App, q *workqueue.Queue, common workqueue.Params, format string, dryRun bool) error {
	if _, _, _, err := q.EnqueueOps(common); err != nil {
		return err // once, instead of once per line
	}
	b := &bulk{a: a, q: q, common: common, dryRun: dryRun, print: &jobStream{w: a.Out, json: format == output.JSON}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // lets the reader go when we stop early
	lines := cli.ReadLines(ctx, a.In, cli.MaxPayload)
	err := b.take(ctx, lines)
	err = b.verdict(err)
	if printErr := b.print.close(err != nil || dryRun); err == nil {
		err = printErr
	}
	return err
}

func (b *bulk) take(ctx context.Context, lines *cli.LineReader) error {
	for {
		select {
		case chunk, more := <-lines.Chunks:
			if !more {
				if lines.Err != nil {
					return fmt.Errorf("read stdin: %w", lines.Err)
				}
				return nil
			}
			if err := b.enqueue(ctx, chunk); err != nil {
				return fmt.Errorf("from line %d on: %w", chunk[0].Number, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enqueue writes one chunk. Its error means that there is no use in going on.
func (b *bulk) enqueue(ctx context.Context, chunk []cli.InputLine) error {
	items := make([]workqueue.Params, 0, len(chunk))
	from := make([]cli.InputLine, 0, len(chunk)) // from[i] became items[i]
	for _, l := range chunk {
		if l.Size > cli.MaxPayload {
			b.fail(l.Number, exit.Usagef("", "payload of %d bytes: at most %d are accepted", l.Size, cli.MaxPayload))
			continue
		}
		p := b.common
		p.Payload = l.Text
		items, from = append(items, p), append(from, l)
	}
	if b.dryRun {
		return b.check(items, from)
	}
	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	results, err := b.q.EnqueueBatch(ctx, items)
	if err != nil {
		return err
	}
	open := 0 // lines whose outcome is not known
	for i, r := range results {
		switch {
		case r.Err != nil && ctx.Err() != nil:
			open++
			b.failed++
			continue
		case r.Err != nil:
			b.fail(from[i].Number, r.Err)
			continue
		}
		b.enqueued++
		if err := b.print.add(r.Job); err != nil {
			return err
		}
	}
	if err := b.print.flush(); err != nil {
		return err
	}
	if open > 0 {
		b.a.Notef("lines %d to %d: %s may have been enqueued or not", from[0].Number, from[len(from)-1].Number, output.Count(open, "line"))
	}
	return context.Cause(ctx)
}

// check is enqueue without writing.
func (b *bulk) check(items []workqueue.Params, from []cli.InputLine) error {
	for i, p := range items {
		if _, _, _, err := b.q.EnqueueOps(p); err != nil {
			b.fail(from[i].Number, err)
			continue
		}
		b.enqueued++
	}
	return nil
}

func (b *bulk) fail(line int, err error) {
	b.failed++
	b.a.Notef("line %d: %s", line, exit.Text(err))
}

// verdict is the command's error. What stopped it before anything was enqueued keeps its own code; afterwards the caller
// must not take it for nothing.
func (b *bulk) verdict(stopped error) error {
	if b.dryRun && stopped == nil {
		b.a.Notef("would enqueue %d jobs to %s", b.enqueued, b.q.Name())
	}
	switch {
	case stopped == nil && b.failed == 0:
		return nil
	case b.enqueued == 0 && stopped != nil:
		return stopped
	case stopped != nil:
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("enqueued %d jobs to %s, then stopped %w", b.enqueued, b.q.Name(), stopped)}
	}
	return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%d of %d lines were not enqueued to %s", b.failed, b.failed+b.enqueued, b.q.Name()),
		Try: "the lines that are named above, alone"}
}

// jobStream prints jobs as they come: names one per line, or one JSON list.
type jobStream struct {
	w    io.Writer
	json bool
	n    int
	buf  bytes.Buffer // what was not flushed yet
}

func (s *jobStream) add(j *workqueue.Job) error {
	s.n++
	if !s.json {
		s.buf.WriteString(cli.NameOf(j) + "\n")
		return nil
	}
	b, err := output.EncodeJSON(itemOf(j), "")
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	before := ",\n  "
	if s.n == 1 {
		before = "{\"items\": [\n  "
	}
	s.buf.WriteString(before)
	s.buf.Write(bytes.TrimSuffix(b, []byte("\n")))
	return nil
}

func (s *jobStream) flush() error {
	if _, err := s.buf.WriteTo(s.w); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// close ends the list, also after an error: half a list would be no JSON. An error before the first job leaves nothing.
func (s *jobStream) close(failed bool) error {
	switch {
	case s.json && s.n > 0:
		s.buf.WriteString("\n]}\n")
	case s.json && !failed:
		s.buf.WriteString("{\"items\": []}\n")
	}
	return s.flush()
}
