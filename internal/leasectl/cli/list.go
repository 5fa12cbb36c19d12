package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// ListOptions are the flags of every verb that shows items.
type ListOptions struct {
	Columns   []string
	NoHeaders bool
	Watch     bool
}

// AddFlags declares the flags; what can change while one looks can be watched.
func (o *ListOptions) AddFlags(cmd *cobra.Command) {
	o.AddStaticFlags(cmd)
	cmd.Flags().BoolVarP(&o.Watch, "watch", "w", false, "go on and print what changes, until stopped")
}

// AddStaticFlags declares the flags of a verb whose items do not change while one looks.
func (o *ListOptions) AddStaticFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.Columns, "columns", nil, "print the columns `NAME`[,NAME...], in this order")
	f.BoolVar(&o.NoHeaders, "no-headers", false, "leave out the line of headings")
}

// Shows tells whether that column is printed, for what costs to find out.
func (o *ListOptions) Shows(a *App, head string) bool {
	if len(o.Columns) > 0 {
		return slices.ContainsFunc(o.Columns, func(c string) bool { return strings.EqualFold(c, head) })
	}
	return a.Settings.Output == output.Wide || a.Settings.Output == output.CSV
}

// Lister is what a verb lists.
type Lister[T any] struct {
	View output.View[T]
	// Load reads the items, completely: nothing is printed of a list that breaks off.
	Load func(context.Context, *connect.Conn) ([]T, error)
	// Prefixes are the keys whose changes mean that load may find something else.
	Prefixes func(keyspace.Keyspace) []string
}

// Printer returns how the verb prints, or a usage error before anything is asked of etcd.
func (a *App) Printer(o ListOptions) (output.Printer, error) {
	format, err := a.Format(output.ListFormats...)
	return output.Printer{
		W: a.Out, Format: format, Columns: o.Columns, NoHeaders: o.NoHeaders,
		Colour: (format == output.Table || format == output.Wide) && a.Colourful(a.Out),
	}, err
}

// WatchPrinter is printer for what goes on: a list that never ends has no closing bracket.
func (a *App) WatchPrinter(o ListOptions) (output.Printer, error) {
	p, err := a.Printer(o)
	switch {
	case err != nil:
		return p, err
	case p.Format == output.JSON:
		p.Format = output.JSONL
	case p.Format == output.YAML:
		return p, exit.Usagef("-o jsonl", "-o yaml cannot be watched")
	}
	return p, nil
}

// NewList completes a verb without arguments that prints a list.
func NewList[T any](a *App, cmd *cobra.Command, l Lister[T]) *cobra.Command {
	var o ListOptions
	o.AddFlags(cmd)
	cmd.Aliases = []string{"list"}
	cmd.Args = Takes()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return RunList(cmd.Context(), a, o, l) }
	return cmd
}

// RunList prints the list, and with --watch what changes in it from then on.
func RunList[T any](ctx context.Context, a *App, o ListOptions, l Lister[T]) error {
	return runItems(ctx, a, o, l, output.PrintList[T])
}

// RunItem prints the one item that load finds, and with --watch its changes.
func RunItem[T any](ctx context.Context, a *App, o ListOptions, l Lister[T]) error {
	return runItems(ctx, a, o, l, func(p output.Printer, v output.View[T], items []T) error { return output.PrintItem(p, v, items[0]) })
}

func runItems[T any](ctx context.Context, a *App, o ListOptions, l Lister[T], print func(output.Printer, output.View[T], []T) error) error {
	p, err := a.Printer(o)
	if o.Watch {
		p, err = a.WatchPrinter(o)
	}
	if err != nil {
		return err
	}
	if _, err := l.View.Pick(p); err != nil {
		return err
	}
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		if o.Watch {
			return watchItems(ctx, a, c, p, l)
		}
		items, err := l.Load(ctx, c)
		if err != nil {
			return err
		}
		return print(p, l.View, items)
	})
}

// watchItems prints all items and then each one that is new or has changed. Changes are seen through a watch; bursts of
// them are looked at together.
func watchItems[T any](ctx context.Context, a *App, c *connect.Conn, p output.Printer, l Lister[T]) error {
	store := c.Store()
	ctx, stop := a.WhileRead(ctx)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := a.WatchPrefixes(ctx, store, l.Prefixes(store.Keys()))
	defer connect.WatchOver(ctx, c, a.Notef)()
	shown := map[string]string{}
	for begun := false; ; begun = true {
		items, err := l.Load(ctx, c)
		if err != nil {
			if err := connect.Outlast(ctx, begun, nil, err); err != nil {
				return err
			}
			continue
		}
		if err := output.PrintRows(p, l.View, news(l.View, items, shown)); err != nil {
			return err
		}
		p.NoHeaders = true
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-changed:
			if err != nil {
				return err
			}
		}
	}
}

// news returns the items that are not in shown as they are, and puts them there.
func news[T any](v output.View[T], items []T, shown map[string]string) (fresh []T) {
	for _, item := range items {
		b, err := json.Marshal(item)
		if err != nil { // no item has what JSON cannot say
			panic(err)
		}
		if name := v.Name(item); shown[name] != string(b) {
			shown[name] = string(b)
			fresh = append(fresh, item)
		}
	}
	return fresh
}

// WatchEvery is the shortest time between two looks.
const WatchEvery = 200 * time.Millisecond

// WatchPrefixes sends nil when something under the prefixes may have changed since the last receive, and an error when
// it cannot go on. When etcd's history went back it tells so. It ends with ctx.
func (a *App) WatchPrefixes(ctx context.Context, store *etcdkv.Store, prefixes []string) <-chan error {
	changed := make(chan error, 1)
	tell := func(err error) {
		select {
		case changed <- err:
		default: // a look is due anyway
		}
	}
	go connect.TellRewinds(ctx, store, a.Notef)
	for _, prefix := range prefixes {
		go watchPrefix(ctx, store, prefix, tell)
	}
	return changed
}

func watchPrefix(ctx context.Context, store *etcdkv.Store, prefix string, tell func(error)) {
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	for begun := false; ctx.Err() == nil; begun = true {
		resp, err := store.Get(ctx, prefix, clientv3.WithCountOnly())
		if err != nil {
			if err := connect.Outlast(ctx, begun, nil, err); err != nil {
				tell(err)
				return
			}
			continue
		}
		tell(nil) // what happened before the watch began
		for w := range store.Watch(ctx, prefix, resp.Header.Revision+1, clientv3.WithPrefix()) {
			if w.Err() != nil {
				break
			}
			tell(nil)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		select { // the watch broke: once more, not at once
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
