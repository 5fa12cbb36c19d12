package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

// chunk is the payload of a job: hash a part of a file, taking at least that long.
type chunk struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	PaceMS int64  `json:"pace_ms"`
}

// hash is a job's real work.
func (c chunk) hash() (string, error) {
	f, err := os.Open(c.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, c.Offset, c.Size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// message is one line of a worker process.
type message struct {
	What    string `json:"what"` // ready, start, accepted, refused
	ID      string `json:"id,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Session string `json:"session,omitempty"`
}

// Work is a worker process of the demo. Its handler never looks at its context, as
// bad programs do, so that a frozen one delivers its late result when it wakes.
func Work(ctx context.Context, client *clientv3.Client, root string, out io.Writer) error {
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: queueName, Root: root})
	if err != nil {
		return err
	}
	defer q.Close()
	tell := teller(out)
	mux := workqueue.NewMux()
	workqueue.HandleJSON(mux, "hash", func(_ context.Context, c *workqueue.Claim, in chunk) (string, error) {
		pace := time.After(time.Duration(in.PaceMS) * time.Millisecond)
		sum, err := in.hash()
		<-pace
		return sum, err
	})
	w, err := workqueue.NewWorker(q, mux, workqueue.WorkerConfig{
		Concurrency: handlers, SessionTTL: ttl,
		Hooks: workqueue.Hooks{
			Claimed: func(j *workqueue.Job, _ time.Duration) {
				tell(message{What: "start", ID: j.ID, Attempt: j.Attempt, Session: j.Owner})
			},
			Settled: func(j *workqueue.Job, s workqueue.Settlement) {
				switch {
				case s.Refused:
					tell(message{What: "refused", ID: j.ID, Attempt: j.Attempt})
				case s.Err == nil && s.Outcome == "completed":
					tell(message{What: "accepted", ID: j.ID, Attempt: j.Attempt})
				}
			},
		},
	})
	if err != nil {
		return err
	}
	tell(message{What: "ready"})
	return w.Run(ctx)
}

// teller writes messages as lines, whole ones.
func teller(out io.Writer) func(message) {
	var mu sync.Mutex
	return func(m message) {
		b, err := json.Marshal(m)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s\n", b)
	}
}
