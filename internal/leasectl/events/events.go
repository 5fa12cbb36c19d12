// Package events tells what happened: leasectl events, and what a job's log and etcd's old revisions say of one job.
package events

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// Options are the flags of leasectl events.
type Options struct {
	cli.ListOptions
	queue string
	types []string
	since int64
	limit int
}

// New is leasectl events.
func New(a *cli.App) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print every transition as it happens",
		Long: `Print every transition as it happens, from now on or from a revision on, until
stopped. It watches etcd; what is printed is derived from nothing but the keys that
changed. TIME is by the clock of whoever did it; etcd keeps none, so the end of a
session and deletions have none. With --queue the right to read that queue is
enough, and sessions, locks and leaders do not show. An etcd that gives no answer for
5 s is told of on stderr, and waited for. When etcd's history went back, as after a
restore from a backup, stderr says so, and what follows is of the new history.

Types of events: ` + wrapList(Types, 4) + `.`,
		Example: `  leasectl events
  leasectl events --queue mail --type FENCED,reclaimed,dead
  leasectl events --since-rev 918200 -o jsonl | jq -r .type`,
		GroupID: cli.GroupLook,
		Args:    cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := eventPrinter(a, cmd, o)
			if err != nil {
				return err
			}
			return a.WithEtcd(cmd.Context(), func(c *connect.Conn) error {
				store := c.Store()
				ctx, stop := a.WhileRead(cmd.Context())
				defer stop()
				defer connect.WatchOver(ctx, c, a.Notef)()
				return connect.OrUnread(ctx, o.follow(ctx, a, store, p))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.queue, "queue", "", "only what happens in `QUEUE`")
	f.StringSliceVar(&o.types, "type", nil, "only events of `TYPE`[,TYPE...]")
	f.Int64Var(&o.since, "since-rev", 0, "begin with what revision `REV` did (default: what comes)")
	f.IntVar(&o.limit, "limit", 0, "end after `N` events")
	o.AddStaticFlags(cmd)
	return cmd
}

// wrapList breaks a list into lines that fit a terminal.
func wrapList(words []string, first int) string {
	var b strings.Builder
	width := len("Types of events: ") + first
	for i, w := range words {
		if i > 0 {
			b.WriteString(",")
			if width += len(w) + 2; width > 80 {
				b.WriteString("\n")
				width = len(w)
			} else {
				b.WriteString(" ")
			}
		}
		b.WriteString(w)
	}
	return b.String()
}

// eventPrinter checks the flags.
func eventPrinter(a *cli.App, cmd *cobra.Command, o Options) (output.Printer, error) {
	for _, t := range o.types {
		if !slices.Contains(Types, t) {
			return output.Printer{}, exit.Usagef("leasectl events --help", "--type %q is none of %s", t, strings.Join(Types, ", "))
		}
	}
	for name, n := range map[string]int64{"since-rev": o.since, "limit": int64(o.limit)} {
		if cmd.Flags().Changed(name) && n <= 0 {
			return output.Printer{}, exit.Usagef("leave it out", "--%s is %d: it must be positive", name, n)
		}
	}
	if cmd.Flags().Changed("queue") {
		if err := keyspace.ValidateName("queue", o.queue); err != nil {
			return output.Printer{}, err
		}
	}
	p, err := a.Printer(o.ListOptions)
	if err != nil {
		return p, err
	}
	switch p.Format {
	case output.JSON: // a list that never ends has no closing bracket
		p.Format = output.JSONL
	case output.YAML:
		return p, exit.Usagef("-o jsonl", "-o yaml cannot be printed as it happens")
	}
	_, err = eventView.Pick(p)
	return p, err
}

// follow watches and prints until ctx ends, or enough was printed.
func (o Options) follow(ctx context.Context, a *cli.App, store *etcdkv.Store, p output.Printer) error {
	prefix := store.Keys().Root()
	if o.queue != "" {
		prefix = store.Keys().Queue(o.queue).Prefix()
	}
	next, err := o.begin(ctx, store, prefix)
	if err != nil {
		return err
	}
	left := o.limit
	var last *mvccpb.KeyValue
	for {
		for resp := range store.Watch(ctx, prefix, next, clientv3.WithPrefix(), clientv3.WithPrevKV()) {
			if resp.CompactRevision != 0 {
				return compactedFrom(next, resp.CompactRevision)
			}
			if resp.Err() != nil {
				break
			}
			events := o.Pick(store.Keys(), resp.Events)
			if o.limit > 0 {
				events = events[:min(len(events), left)]
			}
			if len(events) > 0 {
				if err := output.PrintRows(p, eventView, events); err != nil {
					return err
				}
				p.NoHeaders = true
			}
			if left -= len(events); o.limit > 0 && left == 0 {
				return nil
			}
			for _, e := range resp.Events {
				if next = e.Kv.ModRevision + 1; e.Type == mvccpb.PUT {
					last = e.Kv
				}
			}
		}
		if next, err = resumeEvents(ctx, a, store, prefix, next, last); err != nil {
			return err
		}
	}
}

// begin is the first revision to watch, after a read that shows whether one may.
func (o Options) begin(ctx context.Context, store *etcdkv.Store, prefix string) (int64, error) {
	resp, err := store.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	switch {
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", prefix, err)
	case o.since == 0:
		return resp.Header.Revision + 1, nil
	case o.since > resp.Header.Revision+1:
		return 0, exit.Usagef("leave it out for what comes", "--since-rev %d is still to come: etcd is at revision %d", o.since, resp.Header.Revision)
	}
	return o.since, nil
}

func compactedFrom(rev, oldest int64) error {
	return &exit.Error{
		Code: exit.NotFound, Err: fmt.Errorf("etcd has compacted revision %d; the oldest that it has is %d", rev, oldest),
		Try: "--since-rev " + strconv.FormatInt(oldest, 10),
	}
}

// Pick tells what the events of a response mean, revision by revision, and takes those that were asked for.
func (o Options) Pick(keys keyspace.Keyspace, events []*clientv3.Event) (picked []Event) {
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == rev {
			n++
		}
		for _, e := range eventsOf(keys, rev, changesOf(events[:n])) {
			if len(o.types) == 0 || slices.Contains(o.types, e.Type) {
				picked = append(picked, e)
			}
		}
		events = events[n:]
	}
	return picked
}

func changesOf(events []*clientv3.Event) (changes []keyChange) {
	for _, e := range events {
		c := keyChange{key: string(e.Kv.Key), old: e.PrevKv}
		if e.Type == mvccpb.PUT {
			c.now = e.Kv
		}
		changes = append(changes, c)
	}
	return changes
}

var eventView = output.View[Event]{
	Name: func(e Event) string { return "event/" + e.Revision },
	Columns: []output.Column[Event]{
		{Head: "REV", Cell: func(e Event) string { return e.Revision }},
		{Head: "TIME", Cell: func(e Event) string { return e.Clock() }},
		{Head: "EVENT", Cell: func(e Event) string { return e.Type }},
		{Head: "OF", Cell: func(e Event) string { return e.Subject() }},
		{Head: "ACTOR", Cell: func(e Event) string { return escape.WordCell(e.Actor) }},
		{Head: "TOKEN", Cell: func(e Event) string { return e.Token }},
		{Head: "DETAIL", Cell: func(e Event) string { return output.LastLine(e.Detail) }},
	},
}

// Subject is what it happened to.
func (e Event) Subject() string {
	switch {
	case e.Name != "":
		return e.Name
	case e.ID != "":
		return cli.JobRef{Queue: e.Queue, ID: e.ID}.Name()
	case e.Queue != "":
		return escape.Ref("queue", e.Queue)
	}
	return ""
}
