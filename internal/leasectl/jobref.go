package leasectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
	"github.com/leasekit/leasekit/workqueue"
)

// jobRef names one job, as people and scripts write it: QUEUE/ID.
type jobRef struct{ queue, id string }

// name is what -o name prints: one word, which needs no quotes in a shell and which xargs does not split.
func (r jobRef) name() string { return "job/" + strings.TrimPrefix(r.text(), "job/") }

// text is the reference as people write it, QUEUE/ID.
func (r jobRef) text() string { return escape.Job(r.queue, r.id) }

func nameOf(j *workqueue.Job) string { return jobRef{j.Queue, j.ID}.name() }

// parseJobRef splits at the first slash only, since an ID may hold more. It also takes job/QUEUE/ID, so that what -o
// name prints can be handed on; a queue that is called job needs that form for IDs with a slash. %XX stands for a byte, in
// the queue's name and in the ID, as it is printed; a percent sign that begins no such escape stands for itself.
func parseJobRef(arg string) (jobRef, error) {
	rest := arg
	if cut, ok := strings.CutPrefix(arg, "job/"); ok && strings.Contains(cut, "/") {
		rest = cut
	}
	queue, id, ok := strings.Cut(rest, "/")
	if !ok || queue == "" || id == "" {
		return jobRef{}, usagef("leasectl jobs ls -o name", "%q is not QUEUE/ID", arg)
	}
	return jobRef{escape.Unname(queue), escape.Unname(id)}, nil
}

// about gives the hints of exit.go's table the name that they leave open: of the job, or, without an ID, of the queue.
func about(ref jobRef, err error) error {
	_, try := explain(err)
	const open = "jobs get QUEUE/ID"
	if !strings.Contains(try, open) {
		return err
	}
	look := "jobs get " + escape.Shell(ref.text())
	if ref.id == "" {
		look = "queues get " + escape.Shell(ref.queue)
	}
	return &failure{err: err, try: strings.ReplaceAll(try, open, look)}
}

// withQueue connects, opens a queue, calls f, and closes both again.
func (a *app) withQueue(ctx context.Context, name string, f func(*connection, *workqueue.Queue) error) error {
	return a.withEtcd(ctx, func(c *connection) error {
		q, err := a.openQueue(ctx, c, name, nil)
		if err != nil {
			return err
		}
		defer func() { _ = q.Close() }() // every outcome is known by now; what is left ends with its lease
		return f(c, q)
	})
}

// withEtcd connects, calls f, and closes the connection again.
func (a *app) withEtcd(ctx context.Context, f func(*connection) error) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := f(c); err != nil {
		return a.denied(ctx, c, err)
	}
	return nil
}

// openQueue opens a queue, which the caller must Close. A nil logger logs nothing.
func (a *app) openQueue(ctx context.Context, c *connection, name string, log *zap.Logger) (*workqueue.Queue, error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	return workqueue.Open(ctx, c.Client, workqueue.Config{Queue: name, Root: c.root, Identity: a.settings.identity, MaxPayload: maxPayload, Logger: log})
}

// bounded limits one call to etcd: a library waits as long as its context, a person does not.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.settings.dialTimeout)
}

// actor names who acts, for the log of the job.
func actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// applicable returns the error that the library would return for an action that the job's state forbids.
func applicable(verb string, j *workqueue.Job, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s job %s: %w: it is %s", verb, j.ID, workqueue.ErrNotApplicable, j.State)
}

// unreadable tells that a listing met a record that it cannot show, and goes on.
func unreadable(err error) bool { return errors.Is(err, workqueue.ErrUndecodable) }
