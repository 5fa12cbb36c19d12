package leasectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/leasekit/leasekit/workqueue"
	"go.uber.org/zap"
)

// jobRef names one job, as people and scripts write it: QUEUE/ID.
type jobRef struct{ queue, id string }

// A slash in a queue's name is written %2F in a reference, where the first slash ends the queue.
var (
	escapeQueue   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescapeQueue = strings.NewReplacer("%25", "%", "%2F", "/", "%2f", "/")
)

// name is what -o name prints.
func (r jobRef) name() string { return "job/" + escapeQueue.Replace(r.queue) + "/" + r.id }

// text is the reference as people write it, QUEUE/ID.
func (r jobRef) text() string { return escapeQueue.Replace(r.queue) + "/" + r.id }

func nameOf(j *workqueue.Job) string { return jobRef{j.Queue, j.ID}.name() }

// parseJobRef splits at the first slash only, since an ID may hold more. It also takes job/QUEUE/ID, so that what -o
// name prints can be handed on; a queue that is called job needs that form for IDs with a slash. A slash in a queue's
// name is %2F, and a percent sign %25.
func parseJobRef(arg string) (jobRef, error) {
	if rest, ok := strings.CutPrefix(arg, "job/"); ok && strings.Contains(rest, "/") {
		arg = rest
	}
	queue, id, ok := strings.Cut(arg, "/")
	if !ok || queue == "" || id == "" {
		return jobRef{}, usagef("leasectl jobs ls -o name", "%q is not QUEUE/ID", arg)
	}
	return jobRef{unescapeQueue.Replace(queue), id}, nil
}

// about gives the hints of exit.go's table the name that they leave open: of the job, or, without an ID, of the queue.
func about(ref jobRef, err error) error {
	_, try := explain(err)
	const open = "jobs get QUEUE/ID"
	if !strings.Contains(try, open) {
		return err
	}
	look := "jobs get " + shellWord(ref.text())
	if ref.id == "" {
		look = "queues get " + shellWord(ref.queue)
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
	return f(c)
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
