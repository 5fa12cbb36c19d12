package cli

import (
	"errors"
	"os"
	"os/user"
	"strings"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// JobRef names one job, as people and scripts write it: QUEUE/ID.
type JobRef struct{ Queue, ID string }

// Name is what -o name prints: one word, which needs no quotes in a shell and which xargs does not split.
func (r JobRef) Name() string { return "job/" + strings.TrimPrefix(r.Text(), "job/") }

// Text is the reference as people write it, QUEUE/ID.
func (r JobRef) Text() string { return escape.Job(r.Queue, r.ID) }

// NameOf is what -o name prints of a job.
func NameOf(j *workqueue.Job) string { return JobRef{j.Queue, j.ID}.Name() }

// ParseJobRef splits at the first slash only, since an ID may hold more. It also takes job/QUEUE/ID, so that what -o
// name prints can be handed on; a queue that is called job needs that form for IDs with a slash. %XX stands for a byte, in
// the queue's name and in the ID, as it is printed; a percent sign that begins no such escape stands for itself.
func ParseJobRef(arg string) (JobRef, error) {
	rest := arg
	if cut, ok := strings.CutPrefix(arg, "job/"); ok && strings.Contains(cut, "/") {
		rest = cut
	}
	queue, id, ok := strings.Cut(rest, "/")
	if !ok || queue == "" || id == "" {
		return JobRef{}, exit.Usagef("leasectl jobs ls -o name", "%q is not QUEUE/ID", arg)
	}
	return JobRef{escape.Unname(queue), escape.Unname(id)}, nil
}

// About gives the hints of package exit the name that they leave open: of the job, or, without an ID, of the queue.
func About(ref JobRef, err error) error {
	_, try := exit.Explain(err)
	const open = "jobs get QUEUE/ID"
	if !strings.Contains(try, open) {
		return err
	}
	look := "jobs get " + escape.Shell(ref.Text())
	if ref.ID == "" {
		look = "queues get " + escape.Shell(ref.Queue)
	}
	return &exit.Error{Err: err, Try: strings.ReplaceAll(try, open, look)}
}

// Actor names who acts, for the log of the job.
func Actor() string {
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

// Unreadable tells that a listing met a record that it cannot show, and goes on.
func Unreadable(err error) bool { return errors.Is(err, workqueue.ErrUndecodable) }

// TextOf is a job's QUEUE/ID.
func TextOf(j *workqueue.Job) string { return JobRef{j.Queue, j.ID}.Text() }
