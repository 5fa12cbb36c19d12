package look

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// Worker is a session: one that lives, or one that is gone and still owns jobs.
type Worker struct {
	Name    string `json:"name"` // its identity, which others may have too
	Session string `json:"session"`
	State   string `json:"state"` // live, unlisted or LOST
	// Queues are those that it serves, or owns jobs of.
	Queues      []workerQueue `json:"queues"`
	Busy        int           `json:"busy"`
	Concurrency int           `json:"concurrency"`
	Lease       string        `json:"lease"` // hex; empty when it is gone
	// TTLLeft and TTL are what is left of the lease, and what was granted.
	TTLLeft int64 `json:"ttl_left_seconds"`
	TTL     int64 `json:"ttl_seconds"`
	// Term is the term of the leader that counts the lease: with each new one the whole time begins anew, whether anybody
	// renews or not. Empty when the lease is gone.
	Term     string    `json:"leader_term"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Opened   time.Time `json:"opened_at,omitzero"`
	Revision string    `json:"revision"`

	lease clientv3.LeaseID
}

// workerQueue is what a session does in one queue.
type workerQueue struct {
	Queue       string   `json:"queue"`
	Serving     bool     `json:"serving"` // it takes jobs from it
	Kinds       []string `json:"kinds"`   // that it takes; none means all
	Concurrency int      `json:"concurrency"`
	Busy        int      `json:"busy"` // jobs that it owns
}

// The states of sessions.
const (
	workerLive = "live"
	// workerUnlisted owns jobs of a queue for which it is not registered: it drains, or works step by step from a script.
	workerUnlisted = "unlisted"
	WorkerLost     = "LOST" // it is gone, and owns jobs
)

// ReadWorkers reads all sessions, what they serve, and what they own, given the queues that were counted; nothing of
// their leases: see AddLeases.
func ReadWorkers(ctx context.Context, a *cli.App, c *connect.Conn, queues []Queue) ([]Worker, error) {
	store := c.Store()
	sessions, _, err := ReadSessions(ctx, store)
	if err != nil {
		return nil, err
	}
	found := map[string]*Worker{}
	var order []string
	for _, s := range sessions {
		found[s.ID] = liveWorker(s)
		order = append(order, s.ID)
	}
	registered, err := readRegistrations(ctx, store, queues)
	if err != nil {
		return nil, err
	}
	for i, q := range queues {
		served := registered[i]
		for sid := range q.claims {
			if _, known := served[sid]; !known {
				served[sid] = workerQueue{Queue: q.Name, Kinds: []string{}}
			}
		}
		for sid, wq := range served {
			w := found[sid]
			if w == nil { // gone; only its claims tell of it
				w = &Worker{Name: keyspace.IdentityOf(sid), Session: sid, State: WorkerLost, Revision: "0"}
				found[sid] = w
				order = append(order, sid)
			}
			wq.Busy = q.claims[sid]
			w.Queues = append(w.Queues, wq)
		}
	}
	var items []Worker
	for _, sid := range order {
		w := found[sid]
		w.sum()
		items = append(items, *w)
	}
	slices.SortStableFunc(items, func(a, b Worker) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Opened.Compare(b.Opened), strings.Compare(a.Session, b.Session))
	})
	return items, nil
}

func liveWorker(s Session) *Worker {
	return &Worker{
		Name: s.Identity, Session: s.ID, State: workerLive, Lease: LeaseHex(s.Lease), Host: s.Host, PID: s.PID, Opened: s.Opened,
		Revision: fmt.Sprint(s.rev), lease: s.Lease,
	}
}

// AddLeases fills in what is left of the leases of those who live.
func AddLeases(ctx context.Context, c *connect.Conn, workers []Worker) error {
	ids := make([]clientv3.LeaseID, len(workers))
	for i, w := range workers {
		ids[i] = w.lease
	}
	times, err := LeaseTimes(ctx, c, ids)
	if err != nil {
		return err
	}
	for i := range workers {
		w, t := &workers[i], times[workers[i].lease]
		w.TTLLeft, w.TTL, w.Term = int64(t.Left/time.Second), int64(t.Granted/time.Second), t.termText()
	}
	return nil
}

// sum adds the queues up.
func (w *Worker) sum() {
	w.Busy, w.Concurrency = 0, 0
	unlisted := false
	for _, q := range w.Queues {
		w.Busy, w.Concurrency = w.Busy+q.Busy, w.Concurrency+q.Concurrency
		unlisted = unlisted || !q.Serving
	}
	if unlisted && w.State == workerLive {
		w.State = workerUnlisted
	}
	if w.Queues == nil {
		w.Queues = []workerQueue{}
	}
	slices.SortFunc(w.Queues, func(a, b workerQueue) int { return strings.Compare(a.Queue, b.Queue) })
}

// readRegistrations reads who serves the queues, by session.
func readRegistrations(ctx context.Context, s *etcdkv.Store, queues []Queue) ([]map[string]workerQueue, error) {
	all := make([]map[string]workerQueue, len(queues))
	prefixes := make([]string, len(queues))
	for i, q := range queues {
		all[i], prefixes[i] = map[string]workerQueue{}, s.Keys().Queue(q.Name).Workers()
	}
	_, err := s.ScanEach(ctx, prefixes, 0, func(i int, kvs []*mvccpb.KeyValue) bool {
		for _, kv := range kvs {
			p, ok := s.Keys().Parse(string(kv.Key))
			if !ok || p.Kind != "workers" {
				continue
			}
			if r, serves := registrationOf(queues[i].Name, kv.Value); serves {
				all[i][p.Session] = r
			}
		}
		return true
	})
	return all, err
}

// registrationOf reads a registration; serves is false for a session that goes on, and serves the queue no more.
func registrationOf(queue string, value []byte) (registered workerQueue, serves bool) {
	r := job.DecodeWorker(value)
	if r.Kinds == nil {
		r.Kinds = []string{}
	}
	return workerQueue{Queue: queue, Serving: true, Kinds: r.Kinds, Concurrency: r.Concurrency}, !r.Left
}

// WorkerView is how workers are listed.
var WorkerView = output.View[Worker]{
	Name: func(w Worker) string { return "worker/" + escape.WordCell(w.Session) },
	Columns: []output.Column[Worker]{
		{Head: "NAME", Cell: func(w Worker) string { return escape.WordCell(w.Name) }},
		{Head: "QUEUES", Cell: func(w Worker) string {
			var names []string
			for _, q := range w.Queues {
				names = append(names, escape.NameCell("queue", q.Queue))
			}
			return strings.Join(names, ",")
		}},
		{Head: "BUSY", Cell: func(w Worker) string { return w.BusyText() }},
		{Head: "LEASE", Cell: func(w Worker) string {
			if w.Lease == "" {
				return "(gone)"
			}
			return w.Lease
		}},
		{Head: "TTL", Cell: func(w Worker) string {
			if w.TTL == 0 {
				return ""
			}
			return fmt.Sprintf("%ds/%ds", w.TTLLeft, w.TTL)
		}},
		{Head: "HOST", Cell: func(w Worker) string { return escape.WordCell(w.Host) }},
		{Head: "STATE", Cell: func(w Worker) string { return w.State }},
		{Head: "AGE", Cell: func(w Worker) string { return output.Since(w.Opened) }},
	},
	Wide: []output.Column[Worker]{
		{Head: "TERM", Cell: func(w Worker) string { return w.Term }},
		{Head: "SESSION", Cell: func(w Worker) string { return escape.WordCell(w.Session) }},
		{Head: "PID", Cell: func(w Worker) string {
			if w.PID == 0 {
				return ""
			}
			return fmt.Sprint(w.PID)
		}},
	},
}

// BusyText is jobs of concurrency; what the concurrency of one who is gone was is not known.
func (w Worker) BusyText() string {
	switch {
	case w.State == WorkerLost:
		return fmt.Sprintf("%d/?", w.Busy)
	case len(w.Queues) == 0:
		return ""
	case w.Concurrency == 0:
		return fmt.Sprintf("%d/-", w.Busy)
	}
	return fmt.Sprintf("%d/%d", w.Busy, w.Concurrency)
}

func (q workerQueue) Describe() string {
	kinds := "all kinds"
	if len(q.Kinds) > 0 {
		kinds = strings.Join(q.Kinds, ", ")
	}
	if !q.Serving {
		return fmt.Sprintf("%s    owns %s, not registered for more", q.Queue, output.Count(q.Busy, "job"))
	}
	return fmt.Sprintf("%s    %d busy, concurrency %d    %s", q.Queue, q.Busy, q.Concurrency, kinds)
}
