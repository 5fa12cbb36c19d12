// Package doctor looks for what is wrong with an etcd cluster and with what Leasekit keeps in it, and repairs what can be
// repaired safely.
//
// # How it looks
//
// Everything under the root is read at one revision, so that what is written meanwhile cannot look like damage. What is
// only wrong when it lasts, such as a job that waits for somebody who is gone, is looked at a second time, and reported
// when not one of its keys has moved. Reads change nothing. Payloads are not read.
//
// # How it repairs
//
// A finding may carry a repair. Repairs are transitions of the libraries, guarded by the revision that was found: what
// has moved since is left alone.
//
// Each check has a file of its own, named after its code.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/roles"
	"github.com/leasekit/leasekit/workqueue"
)

// Options configures [Run]. The zero value works.
type Options struct {
	// Root is the key prefix; "" means /leasekit/.
	Root string
	// User is the etcd user that the client has logged in as; "" means none, or one that a certificate names.
	User string
	// Writes tells that repairs are wanted: the permission to write is looked for too.
	Writes bool
	// Skip are the codes of checks that are left out.
	Skip []string
	// Window is how long something must last that is only wrong when it lasts; 0 means 3 s.
	Window time.Duration
	// MaxWait is the longest time that a job may wait to be claimed, MaxHold that a lock may be held while others wait,
	// MaxPause that a queue may be paused, MaxRun that a claimed job may give no sign; 0 means 5 min, 10 min, 24 h and 1 h.
	MaxWait, MaxHold, MaxPause, MaxRun time.Duration
	// MaxHistory is how many revisions etcd may keep; 0 means 1,000,000.
	MaxHistory int64
	// Timeout bounds everything; 0 means 1 min.
	Timeout time.Duration
	// Explain says why an endpoint does not answer, better than its error; nil, or "", leaves it at that.
	Explain func(ctx context.Context, endpoint string) string
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&o.Window, 3 * time.Second}, {&o.MaxWait, 5 * time.Minute}, {&o.MaxHold, 10 * time.Minute}, {&o.MaxPause, 24 * time.Hour}, {&o.MaxRun, time.Hour}, {&o.Timeout, time.Minute}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if o.MaxHistory == 0 {
		o.MaxHistory = 1_000_000
	}
	return o
}

// ErrUnreachable means that not one endpoint has answered.
var ErrUnreachable = errors.New("no endpoint answers")

// Exam is one look, with what it takes to repair what was found. Close it.
type Exam struct {
	client  *clientv3.Client
	store   *etcdkv.Store
	opts    Options
	cluster cluster
	allowed roles.Granted
	look    *look                    // nil when etcd has no leader that answers
	granted map[string]time.Duration // how long the leases of sessions are, once they were asked for
	// queues are the handles that repairs needed so far.
	mu     sync.Mutex
	queues map[string]*workqueue.Queue

	// Report is what was found.
	Report *Report
}

// Run examines a cluster. It blocks until everything has been looked at, or until ctx or the timeout ends; the client stays
// the caller's. The error wraps [ErrUnreachable] when no endpoint answers. A cluster without a leader is a finding, and no
// error.
func Run(ctx context.Context, client *clientv3.Client, o Options) (*Exam, error) {
	o = o.withDefaults()
	store, err := etcdkv.NewStore(client, o.Root, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	e := &Exam{client: client, store: store, opts: o, queues: map[string]*workqueue.Queue{}, granted: map[string]time.Duration{}}
	start := time.Now()
	if e.cluster, err = askCluster(ctx, client); err != nil {
		return nil, err
	}
	if err := e.takeLook(ctx); err != nil {
		_ = e.Close()
		return nil, err
	}
	if err := e.examine(ctx, start); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// Close gives back what repairs needed. It blocks until that is done, bounded.
func (e *Exam) Close() error {
	var errs []error
	for _, q := range e.queues {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}

// takeLook reads everything, unless there is no leader to read from.
func (e *Exam) takeLook(ctx context.Context) error {
	if !e.cluster.answered {
		e.allowed = roles.Granted{Everything: true} // nobody could answer, and to ask would take the whole timeout
		return nil
	}
	e.allowed = allowed(ctx, e.client, e.opts.User)
	var err error
	for range 3 {
		e.look, err = lookAt(ctx, e)
		if !isCompacted(err) {
			break
		} // it took longer than history is kept: once more from the head
	}
	if err != nil {
		return fmt.Errorf("read what is under %s: %w", e.store.Keys().Root(), err)
	}
	return nil
}

// examine runs the checks, and looks a second time at what must last.
func (e *Exam) examine(ctx context.Context, start time.Time) error {
	r := &Report{Root: e.store.Keys().Root(), CheckedAt: start.UTC()}
	if e.look != nil {
		r.Revision = decimal(e.look.rev)
	}
	for _, c := range Checks() {
		res := Result{Code: c.Code, Status: StatusOK}
		switch why := e.cannot(c); {
		case slices.Contains(e.opts.Skip, c.Code):
			res.Status = StatusSkipped
		case why != "":
			res.Status, res.Note = StatusUnknown, why
		default:
			note, findings, err := c.run(ctx, e)
			if err != nil {
				return fmt.Errorf("check %s: %w", c.Code, err)
			}
			res.Note = note
			if part := e.partOf(c); part != "" {
				res.Status, res.Note = StatusUnknown, part
			}
			for _, f := range findings {
				f.Code, f.check = c.Code, c
			}
			r.Findings = append(r.Findings, findings...)
		}
		r.Checks = append(r.Checks, res)
	}
	if err := e.confirm(ctx, r); err != nil {
		return fmt.Errorf("look a second time: %w", err)
	}
	r.settle()
	r.Took = time.Since(start)
	e.Report = r
	return nil
}

// cannot tells why a check cannot be made, or nothing.
func (e *Exam) cannot(c *Check) string {
	if len(c.needs) == 0 {
		return ""
	}
	if e.look == nil {
		return "etcd has no leader"
	}
	for _, dir := range c.needs {
		if e.look.partial[dir] && dir != dirQueues {
			return "no permission to read " + dir
		}
	}
	return ""
}

// partOf tells which queues a check is about, where others may not be read.
func (e *Exam) partOf(c *Check) string {
	if e.look == nil || !e.look.partial[dirQueues] || !slices.Contains(c.needs, dirQueues) {
		return ""
	}
	names := slices.Sorted(maps.Keys(e.look.queues))
	if len(names) == 0 {
		return "no permission to read queues"
	}
	return "no permission to read queues other than " + some(names, 3)
}

// queue returns a handle on a queue, for repairs.
func (e *Exam) queue(ctx context.Context, name string) (*workqueue.Queue, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.queues[name]; q != nil {
		return q, nil
	}
	q, err := workqueue.Open(ctx, e.client, workqueue.Config{Queue: name, Root: e.store.Keys().Root(), Identity: "doctor", Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	e.queues[name] = q
	return q, nil
}
