package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/events"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsHistory(a *cli.App) *cobra.Command {
	var o cli.ListOptions
	cmd := &cobra.Command{
		Use:   "history QUEUE/ID",
		Short: "Show everything that happened to a job, and who did it",
		Long: `Show everything that happened to a job: when, at which revision, who did it, under
which token. The source is the log that the job's record carries along, its last 20
attempts. As long as etcd keeps old revisions they add what the log has no room for:
exact revisions, edits, what was collapsed. Late writes that were refused show as
FENCED, the last one of each job, as long as it is kept. The last line says how far
all that reaches.`,
		Example: `  leasectl jobs history mail/welcome-7
  leasectl jobs history mail/welcome-7 -o json | jq '.items[].type'`,
		Args: cli.Takes("QUEUE/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := cli.ParseJobRef(args[0])
			if err != nil {
				return err
			}
			p, err := a.Printer(o)
			if err != nil {
				return err
			}
			if _, err := historyView.Pick(p); err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				h, err := loadHistory(cmd.Context(), a, c, ref)
				if err != nil {
					return err
				}
				return h.print(p)
			})
		},
	}
	o.AddStaticFlags(cmd)
	return cmd
}

// jobHistory is what happened to a job, and how far back that is known.
type jobHistory struct {
	Items  []events.Event `json:"items"`
	Source historySource  `json:"source"`
}

// historySource says where a history comes from, and where it ends.
type historySource struct {
	LogEntries int    `json:"log_entries"`
	LogTotal   int    `json:"log_total"`           // of which the entries are the last
	MVCCFrom   string `json:"mvcc_from,omitempty"` // the oldest revision that etcd still had of the job
	Compacted  bool   `json:"compacted"`           // older revisions are gone
	Text       string `json:"text"`
}

var historyView = output.View[events.Event]{
	Name: func(e events.Event) string { return "event/" + e.Revision },
	Columns: []output.Column[events.Event]{
		{Head: "REV", Cell: func(e events.Event) string { return e.Revision }},
		{Head: "TIME", Cell: func(e events.Event) string { return e.Clock() }},
		{Head: "ACTOR", Cell: func(e events.Event) string { return escape.WordCell(e.Actor) }},
		{Head: "EVENT", Cell: func(e events.Event) string { return e.Type }},
		{Head: "TOKEN", Cell: func(e events.Event) string { return e.Token }},
		{Head: "DETAIL", Cell: func(e events.Event) string { return output.LastLine(e.Detail) }},
	},
}

func (h jobHistory) print(p output.Printer) error {
	switch p.Format {
	case output.JSON:
		return output.PrintJSON(p.W, h)
	case output.YAML:
		return output.PrintYAML(p.W, h)
	}
	if err := output.PrintRows(p, historyView, h.Items); err != nil || p.Format != output.Table && p.Format != output.Wide {
		return err
	}
	return output.Write(p.W, "source: "+h.Source.Text+"\n")
}

// loadHistory puts together what record, old revisions and evidence tell.
func loadHistory(ctx context.Context, a *cli.App, c *connect.Conn, ref cli.JobRef) (jobHistory, error) {
	if err := keyspace.ValidateName("id", ref.ID); err != nil {
		return jobHistory{}, err
	}
	store := c.Store()
	w := &walk{store: store, keys: store.Keys().Queue(ref.Queue), id: ref.ID}
	if err := w.back(ctx); err != nil {
		return jobHistory{}, fmt.Errorf("read the history of %s: %w", ref.Name(), err)
	}
	if w.newest == nil {
		return jobHistory{}, fmt.Errorf("read the history of %s: %w", ref.Name(), workqueue.ErrNotFound)
	}
	all := events.Merge(events.OfLog(w.newest, w.created), w.events)
	if w.refusal != nil {
		all = events.Merge(all, []events.Event{*w.refusal})
	}
	return jobHistory{Items: all, Source: w.source()}, nil
}

// maxSteps bounds how many old revisions of one job are read.
const maxSteps = 1000

// walk follows one job back through etcd's old revisions.
type walk struct {
	store *etcdkv.Store
	keys  keyspace.QueueKeys
	id    string

	newest    *workqueue.Job
	created   int64 // revision of the live key, when it is there
	events    []events.Event
	refusal   *events.Event
	oldest    int64 // the first revision of the job that was still there
	compacted bool
	unread    bool // a record on the way could not be read
}

// back reads the job as it is, then as it was before each of its changes.
func (w *walk) back(ctx context.Context) error {
	after, rev, err := w.read(ctx, 0)
	if err != nil {
		return err
	}
	if w.newest = after.Job(); w.newest == nil && after.Unread != nil {
		return after.Unread
	}
	for step := 0; rev > 0 && step < maxSteps; step++ {
		w.oldest = rev
		before, older, err := w.read(ctx, rev-1)
		if errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			w.compacted = true
			break
		}
		if err != nil {
			return err
		}
		if before.Unread != nil || after.Unread != nil { // what was there, nobody can tell; before it somebody may
			w.unread = true
		} else if e := events.OfJob(rev, before, after); e != nil {
			w.events = append(w.events, *e)
		}
		after, rev = before, older
	}
	slices.Reverse(w.events)
	return nil
}

// read reads the job's records as they were at a revision, 0 for now, and the revision that made them so.
func (w *walk) read(ctx context.Context, rev int64) (p events.Places, made int64, err error) {
	if rev < 0 {
		return p, 0, nil
	}
	ops := []clientv3.Op{}
	for _, key := range []string{w.keys.Job(w.id), w.keys.Done(w.id), w.keys.Dead(w.id), w.keys.Refused(w.id)} {
		ops = append(ops, clientv3.OpGet(key, clientv3.WithRev(rev)))
	}
	resp, err := w.store.Read(ctx, ops...)
	if err != nil {
		return p, 0, err
	}
	for i, into := range []**workqueue.Job{&p.Live, &p.Done, &p.Dead, nil} {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		switch {
		case len(kvs) == 0:
		case into == nil:
			if rev == 0 {
				w.refused(kvs[0])
			}
		default:
			j := &workqueue.Job{}
			made = max(made, kvs[0].ModRevision)
			if _, err := j.ReadKey(w.store.Keys(), kvs[0]); cli.Unreadable(err) {
				p.Unread = err
				continue
			} else if err != nil {
				return p, 0, err
			}
			*into = j
			if i == 0 && rev == 0 {
				w.created = kvs[0].CreateRevision
			}
		}
	}
	return p, made, nil
}

func (w *walk) refused(kv *mvccpb.KeyValue) {
	if w.refusal = events.OfRefusal(w.store.Keys(), w.keys.Name(), kv); w.refusal != nil {
		w.refusal.At(kv.ModRevision)
	}
}

func (w *walk) source() historySource {
	s := historySource{LogEntries: len(w.newest.Attempts), LogTotal: w.newest.LogTotal, Compacted: w.compacted}
	text := []string{fmt.Sprintf("job log (%d", s.LogEntries)}
	if s.LogTotal > s.LogEntries {
		text[0] += fmt.Sprintf(" of %d", s.LogTotal)
	}
	text[0] += " entries)"
	if w.oldest > 0 {
		s.MVCCFrom = fmt.Sprint(w.oldest)
		text = append(text, "etcd MVCC back to rev "+s.MVCCFrom)
		if s.Compacted {
			text[1] += " (older revisions compacted)"
		}
	}
	s.Text = strings.Join(text, " + ")
	if w.unread {
		s.Text += "; what could not be read is left out"
	}
	return s
}
