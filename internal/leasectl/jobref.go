package leasectl

import (
	"errors"
	"os"
	"os/user"
	"strings"

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

// unreadable tells that a listing met a record that it cannot show, and goes on.
func unreadable(err error) bool { return errors.Is(err, workqueue.ErrUndecodable) }

func refText(j *workqueue.Job) string { return jobRef{j.Queue, j.ID}.text() }
