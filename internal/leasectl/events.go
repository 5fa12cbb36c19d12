package leasectl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// eventOptions are the flags of leasectl events.
type eventOptions struct {
	listOptions
	queue string
	types []string
	since int64
	limit int
}

func newEvents(a *app) *cobra.Command {
	var o eventOptions
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

Types of events: ` + wrapList(eventTypes, 4) + `.`,
		Example: `  leasectl events
  leasectl events --queue mail --type FENCED,reclaimed,dead
  leasectl events --since-rev 918200 -o jsonl | jq -r .type`,
		GroupID: groupLook,
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := eventPrinter(a, cmd, o)
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(c *connection, store *etcdkv.Store) error {
				ctx, stop := a.whileRead(cmd.Context())
				defer stop()
				defer watchOver(ctx, c, a.notef)()
				return orUnread(ctx, o.follow(ctx, a, store, p))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.queue, "queue", "", "only what happens in `QUEUE`")
	f.StringSliceVar(&o.types, "type", nil, "only events of `TYPE`[,TYPE...]")
	f.Int64Var(&o.since, "since-rev", 0, "begin with what revision `REV` did (default: what comes)")
	f.IntVar(&o.limit, "limit", 0, "end after `N` events")
	f.StringSliceVar(&o.columns, "columns", nil, "print the columns `NAME`[,NAME...], in this order")
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the line of headings")
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
func eventPrinter(a *app, cmd *cobra.Command, o eventOptions) (printer, error) {
	for _, t := range o.types {
		if !slices.Contains(eventTypes, t) {
			return printer{}, usagef("leasectl events --help", "--type %q is none of %s", t, strings.Join(eventTypes, ", "))
		}
	}
	for name, n := range map[string]int64{"since-rev": o.since, "limit": int64(o.limit)} {
		if cmd.Flags().Changed(name) && n <= 0 {
			return printer{}, usagef("leave it out", "--%s is %d: it must be positive", name, n)
		}
	}
	if cmd.Flags().Changed("queue") {
		if err := keyspace.ValidateName("queue", o.queue); err != nil {
			return printer{}, err
		}
	}
	p, err := a.printer(o.listOptions)
	if err != nil {
		return p, err
	}
	switch p.format {
	case formatJSON: // a list that never ends has no closing bracket
		p.format = formatJSONL
	case formatYAML:
		return p, usagef("-o jsonl", "-o yaml cannot be printed as it happens")
	}
	_, err = eventView.pick(p)
	return p, err
}

// follow watches and prints until ctx ends, or enough was printed.
func (o eventOptions) follow(ctx context.Context, a *app, store *etcdkv.Store, p printer) error {
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
			events := o.pick(store.Keys(), resp.Events)
			if o.limit > 0 {
				events = events[:min(len(events), left)]
			}
			if len(events) > 0 {
				if err := printRows(p, eventView, events); err != nil {
					return err
				}
				p.noHeaders = true
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
func (o eventOptions) begin(ctx context.Context, store *etcdkv.Store, prefix string) (int64, error) {
	resp, err := store.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	switch {
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", prefix, err)
	case o.since == 0:
		return resp.Header.Revision + 1, nil
	case o.since > resp.Header.Revision+1:
		return 0, usagef("leave it out for what comes", "--since-rev %d is still to come: etcd is at revision %d", o.since, resp.Header.Revision)
	}
	return o.since, nil
}

func compactedFrom(rev, oldest int64) error {
	return &failure{
		code: exitNotFound, err: fmt.Errorf("etcd has compacted revision %d; the oldest that it has is %d", rev, oldest),
		try: "--since-rev " + strconv.FormatInt(oldest, 10),
	}
}

// pick tells what the events of a response mean, revision by revision, and takes those that were asked for.
func (o eventOptions) pick(keys keyspace.Keyspace, events []*clientv3.Event) (picked []eventItem) {
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

var eventView = view[eventItem]{
	name: func(e eventItem) string { return "event/" + e.Revision },
	columns: []column[eventItem]{
		{"REV", func(e eventItem) string { return e.Revision }},
		{"TIME", func(e eventItem) string { return e.clock() }},
		{"EVENT", func(e eventItem) string { return e.Type }},
		{"OF", func(e eventItem) string { return e.subject() }},
		{"ACTOR", func(e eventItem) string { return wordCell(e.Actor) }},
		{"TOKEN", func(e eventItem) string { return e.Token }},
		{"DETAIL", func(e eventItem) string { return lastLine(e.Detail) }},
	},
}

// subject is what it happened to.
func (e eventItem) subject() string {
	switch {
	case e.Name != "":
		return e.Name
	case e.ID != "":
		return jobRef{e.Queue, e.ID}.name()
	case e.Queue != "":
		return refName("queue", e.Queue)
	}
	return ""
}

func tokenOf(kv *mvccpb.KeyValue) string { return strconv.FormatInt(kv.ModRevision, 10) }
