// Package demo shows in half a minute what Leasekit is for: real worker processes
// share real jobs on a real etcd, one is killed and one is frozen past its lease,
// and still every job is done once.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/workqueue"
)

const (
	queueName = "demo"
	root      = "/leasekit-demo/"
	// handlers is how many jobs a worker process runs at a time.
	handlers = 2
	// ttl is short, so that a dead worker's jobs come back while you watch.
	ttl       = 2 * time.Second
	chunkSize = 64 << 10
)

// Options are what the demo can be told.
type Options struct {
	// Workers is how many worker processes share Jobs jobs.
	Workers, Jobs int
	// Seed makes the jobs' lengths and contents the same again.
	Seed uint64
	// WorkerArgs run a worker process; it finds etcd by LEASECTL_ENDPOINTS.
	WorkerArgs []string
	// ErrOut gets the children's stderr. Note tells what happens, Progress how far
	// it is.
	ErrOut   io.Writer
	Note     func(format string, args ...any)
	Progress func(Progress)
}

// Progress is how far the demo is.
type Progress struct{ Done, Jobs, Running, Workers int }

// Report is how it ended.
type Report struct {
	Jobs          int     `json:"jobs"`
	Finished      int     `json:"finished"`
	AcceptedTwice int     `json:"accepted_twice"`
	Lost          int     `json:"lost"`
	Reclaimed     int     `json:"reclaimed"`
	LateRefused   int     `json:"late_results_refused"`
	TakeoverMS    float64 `json:"takeover_after_lease_end_ms"`
}

// Failed says what the report should not show, or nil.
func (r Report) Failed() error {
	var errs []error
	if r.Finished != r.Jobs || r.Lost != 0 {
		errs = append(errs, fmt.Errorf("%d of %d jobs finished, %d lost", r.Finished, r.Jobs, r.Lost))
	}
	if r.AcceptedTwice != 0 {
		errs = append(errs, fmt.Errorf("%d results were accepted twice", r.AcceptedTwice))
	}
	if r.Reclaimed == 0 {
		errs = append(errs, errors.New("no job was reclaimed from the killed worker"))
	}
	if r.LateRefused == 0 {
		errs = append(errs, errors.New("no late result of the frozen worker was refused"))
	}
	return errors.Join(errs...)
}

// Run runs the demo. It blocks until all jobs are done, or ctx ends, and leaves
// nothing behind.
func Run(ctx context.Context, o Options) (Report, error) {
	dir, err := os.MkdirTemp("", "leasekit-demo-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	o.Note("starting an embedded etcd and %d worker processes", o.Workers)
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{Fast: true})
	if err != nil {
		return Report{}, fmt.Errorf("start etcd: %w", err)
	}
	defer etcd.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: queueName, Root: root})
	if err != nil {
		return Report{}, err
	}
	defer q.Close()
	jobs, err := plan(dir, o)
	if err != nil {
		return Report{}, err
	}
	if err := enqueue(ctx, q, jobs); err != nil {
		return Report{}, err
	}
	stage, err := open(ctx, o, etcd.Endpoints()[0], client, q)
	if err != nil {
		return Report{}, err
	}
	defer stage.close()
	if err := stage.play(ctx); err != nil {
		return Report{}, err
	}
	return stage.judge(ctx, jobs)
}

// plan writes the file and cuts it into jobs of seeded length.
func plan(dir string, o Options) ([]chunk, error) {
	src := rand.New(rand.NewPCG(o.Seed, 1))
	f, err := os.Create(dir + "/data")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	jobs := make([]chunk, o.Jobs)
	buf := make([]byte, chunkSize)
	for i := range jobs {
		for j := range buf {
			buf[j] = byte(src.Uint32())
		}
		if _, err := f.Write(buf); err != nil {
			return nil, err
		}
		jobs[i] = chunk{File: f.Name(), Offset: int64(i) * chunkSize, Size: chunkSize, PaceMS: 50 + src.Int64N(251)}
	}
	return jobs, f.Sync()
}

func jobID(i int) string { return fmt.Sprintf("chunk-%03d", i) }

func enqueue(ctx context.Context, q *workqueue.Queue, jobs []chunk) error {
	items := make([]workqueue.Params, len(jobs))
	for i, j := range jobs {
		payload, err := json.Marshal(j)
		if err != nil {
			return err
		}
		items[i] = workqueue.Params{ID: jobID(i), Kind: "hash", Payload: payload}
	}
	results, err := q.EnqueueBatch(ctx, items)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// judge looks at what is in etcd at the end, and at every result.
func (s *stage) judge(ctx context.Context, jobs []chunk) (Report, error) {
	r := Report{Jobs: len(jobs), AcceptedTwice: s.acceptedTwice(), TakeoverMS: s.takeover.Seconds() * 1000}
	for i, c := range jobs {
		job, err := s.q.Get(ctx, jobID(i))
		if errors.Is(err, workqueue.ErrNotFound) {
			r.Lost++
			continue
		}
		if err != nil {
			return r, err
		}
		if err := r.add(job, c); err != nil {
			return r, err
		}
	}
	refused, err := admin.Refusals(ctx, s.q)
	if err != nil {
		return r, err
	}
	for _, late := range refused {
		if late.Verb == "complete" {
			r.LateRefused++
		}
	}
	return r, nil
}

// add counts one job, whose result must be the hash of its chunk.
func (r *Report) add(job *workqueue.Job, c chunk) error {
	completed := 0
	for _, a := range job.Attempts {
		switch a.Outcome {
		case "lost":
			r.Reclaimed++
		case "completed":
			completed++
		}
	}
	if completed > 1 {
		r.AcceptedTwice++
	}
	if job.State != workqueue.StateDone {
		r.Lost++
		return nil
	}
	want, err := c.hash()
	if err != nil {
		return err
	}
	if got := string(job.Result); got != `"`+want+`"` {
		return fmt.Errorf("job %s has result %s, want %q", job.ID, got, want)
	}
	r.Finished++
	return nil
}
