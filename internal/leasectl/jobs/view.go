package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// Item is a job in JSON. Tokens and revisions are strings: they may exceed what a JSON number keeps exactly. Bytes
// are text where they are UTF-8, else base64 in the field of that name.
type Item struct {
	ID            string              `json:"id"`
	Queue         string              `json:"queue"`
	State         workqueue.State     `json:"state"`
	Kind          string              `json:"kind"`
	Priority      int                 `json:"priority"`
	Attempt       int                 `json:"attempt"`
	MaxAttempts   int                 `json:"max_attempts"`
	Failures      int                 `json:"failures"`
	Losses        int                 `json:"losses"`
	Token         string              `json:"token"` // empty unless claimed
	Owner         string              `json:"owner"` // empty unless claimed
	Revision      string              `json:"revision"`
	EnqueuedAt    time.Time           `json:"enqueued_at,omitzero"`
	RunAt         time.Time           `json:"run_at,omitzero"`
	ClaimedAt     time.Time           `json:"claimed_at,omitzero"`
	FinishedAt    time.Time           `json:"finished_at,omitzero"`
	Timeout       string              `json:"timeout,omitempty"`
	AtMostOnce    bool                `json:"at_most_once,omitempty"`
	Labels        map[string]string   `json:"labels,omitempty"`
	Trace         map[string]string   `json:"trace,omitempty"`
	Error         string              `json:"error,omitempty"`
	PayloadSize   int                 `json:"payload_size"`
	Attempts      []workqueue.Attempt `json:"attempts"`
	AttemptsTotal int                 `json:"attempts_total"` // of which attempts are the last

	leaseLeft string // of the owner's session, where the table shows it
}

// jobDetail is a job with everything that belongs to it.
type jobDetail struct {
	Item
	IdempotencyKey   string  `json:"idempotency_key"`
	Payload          *string `json:"payload,omitempty"`
	PayloadBase64    []byte  `json:"payload_base64,omitempty"`
	Result           *string `json:"result,omitempty"`
	ResultBase64     []byte  `json:"result_base64,omitempty"`
	Progress         *string `json:"progress,omitempty"`
	ProgressBase64   []byte  `json:"progress_base64,omitempty"`
	Checkpoint       *string `json:"checkpoint,omitempty"`
	CheckpointBase64 []byte  `json:"checkpoint_base64,omitempty"`
}

func itemOf(j *workqueue.Job) Item {
	item := Item{
		ID: j.ID, Queue: j.Queue, State: j.State, Kind: j.Kind, Priority: j.Priority,
		Attempt: j.Attempt, MaxAttempts: MaxAttempts(j), Failures: j.Failures, Losses: j.Losses,
		Owner: j.Owner, Revision: strconv.FormatInt(j.Revision, 10),
		EnqueuedAt: j.EnqueuedAt, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, FinishedAt: j.FinishedAt,
		AtMostOnce: j.AtMostOnce, Labels: j.Labels, Trace: j.Trace, Error: j.Error,
		PayloadSize: j.PayloadSize, Attempts: j.Attempts, AttemptsTotal: j.LogTotal,
	}
	if !j.Token.IsZero() {
		item.Token = j.Token.String()
	}
	if j.Timeout > 0 {
		item.Timeout = j.Timeout.String()
	}
	if item.Attempts == nil {
		item.Attempts = []workqueue.Attempt{}
	}
	return item
}

func detailOf(j *workqueue.Job) jobDetail {
	d := jobDetail{Item: itemOf(j), IdempotencyKey: j.IdempotencyKey()}
	if j.Payload == nil && j.PayloadSize == 0 {
		j.Payload = []byte{} // an empty payload is a payload; one that is gone is not
	}
	d.Payload, d.PayloadBase64 = textOrBytes(j.Payload)
	d.Result, d.ResultBase64 = textOrBytes(j.Result)
	d.Progress, d.ProgressBase64 = textOrBytes(j.Progress)
	d.Checkpoint, d.CheckpointBase64 = textOrBytes(j.Checkpoint)
	return d
}

// LastError is why the job failed last, empty where it did not.
func (i *Item) LastError() string {
	if n := len(i.Attempts); i.Error == "" && n > 0 {
		return i.Attempts[n-1].Error
	}
	return i.Error
}

func textOrBytes(b []byte) (*string, []byte) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		text := string(b)
		return &text, nil
	}
	return nil, b
}

// MaxAttempts is how many failures bury the job, the library's default filled in.
func MaxAttempts(j *workqueue.Job) int { return cmp.Or(j.MaxAttempts, 5) }

// jobColumns are the columns of jobs; NAME first, AGE last.
func jobColumns[T any](item func(T) *Item) output.View[T] {
	return output.View[T]{
		Name: func(t T) string { return cli.JobRef{Queue: item(t).Queue, ID: item(t).ID}.Name() },
		Columns: []output.Column[T]{
			{Head: "ID", Cell: func(t T) string { return escape.Name(item(t).ID, "") }},
			{Head: "QUEUE", Cell: func(t T) string { return escape.Name(item(t).Queue, "/") }},
			{Head: "KIND", Cell: func(t T) string { return escape.WordCell(item(t).Kind) }},
			{Head: "STATE", Cell: func(t T) string { return string(item(t).State) }},
			{Head: "ATTEMPT", Cell: func(t T) string { return fmt.Sprintf("%d/%d", item(t).Attempt, item(t).MaxAttempts) }},
			{Head: "TOKEN", Cell: func(t T) string { return item(t).Token }},
			{Head: "OWNER", Cell: func(t T) string { return escape.WordCell(item(t).Owner) }},
			{Head: "AGE", Cell: func(t T) string { return output.Since(item(t).EnqueuedAt) }},
		},
		Wide: []output.Column[T]{
			{Head: "RUNNING", Cell: func(t T) string { return output.Since(item(t).ClaimedAt) }},
			{Head: "LEASE-TTL", Cell: func(t T) string { return item(t).leaseLeft }},
			{Head: "PRIORITY", Cell: func(t T) string { return strconv.Itoa(item(t).Priority) }},
			{Head: "LABELS", Cell: func(t T) string { return escape.WordCell(output.Labels(item(t).Labels)) }},
			{Head: "ERROR", Cell: func(t T) string { return output.LastLine(item(t).LastError()) }},
		},
	}
}

// addLeaseTimes fills in what is left of the leases of those who work.
func addLeaseTimes(ctx context.Context, a *cli.App, c *connect.Conn, items []Item) error {
	if !slices.ContainsFunc(items, func(i Item) bool { return i.Owner != "" }) {
		return nil
	}
	sessions, _, err := look.ReadSessions(ctx, c.Store())
	if err != nil {
		return err
	}
	leases := map[string]clientv3.LeaseID{}
	for _, s := range sessions {
		leases[s.ID] = s.Lease
	}
	ids := make([]clientv3.LeaseID, len(items)) // NoLease of those who are gone
	for i, item := range items {
		ids[i] = leases[item.Owner]
	}
	times, err := look.LeaseTimes(ctx, c, ids)
	if err != nil {
		return err
	}
	for i := range items {
		switch t := times[ids[i]]; {
		case items[i].Owner == "":
		case t.Granted == 0 || items[i].State == workqueue.StateOrphan:
			items[i].leaseLeft = "gone"
		default:
			items[i].leaseLeft = output.Age(t.Left)
		}
	}
	return nil
}
