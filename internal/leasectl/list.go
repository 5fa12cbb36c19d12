package leasectl

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
)

// listOptions are the flags of every verb that shows items.
type listOptions struct {
	columns   []string
	noHeaders bool
	watch     bool
}

// addFlags declares the flags; what can change while one looks can be watched.
func (o *listOptions) addFlags(cmd *cobra.Command) {
	o.addStaticFlags(cmd)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on and print what changes, until stopped")
}

// addStaticFlags declares the flags of a verb whose items do not change while one looks.
func (o *listOptions) addStaticFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.columns, "columns", nil, "print the columns `NAME`[,NAME...], in this order")
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the line of headings")
}

// shows tells whether that column is printed, for what costs to find out.
func (o *listOptions) shows(a *app, head string) bool {
	if len(o.columns) > 0 {
		return slices.ContainsFunc(o.columns, func(c string) bool { return strings.EqualFold(c, head) })
	}
	return a.settings.output == formatWide || a.settings.output == formatCSV
}

// lister is what a verb lists.
type lister[T any] struct {
	view view[T]
	// load reads the items, completely: nothing is printed of a list that breaks off.
	load func(context.Context, *connection) ([]T, error)
	// prefixes are the keys whose changes mean that load may find something else.
	prefixes func(keyspace.Keyspace) []string
}

// printer returns how the verb prints, or a usage error before anything is asked of etcd.
func (a *app) printer(o listOptions) (printer, error) {
	format, err := a.format(listFormats...)
	return printer{
		w: a.out, format: format, columns: o.columns, noHeaders: o.noHeaders,
		colour: (format == formatTable || format == formatWide) && a.colourful(a.out),
	}, err
}

// watchPrinter is printer for what goes on: a list that never ends has no closing bracket.
func (a *app) watchPrinter(o listOptions) (printer, error) {
	p, err := a.printer(o)
	switch {
	case err != nil:
		return p, err
	case p.format == formatJSON:
		p.format = formatJSONL
	case p.format == formatYAML:
		return p, usagef("-o jsonl", "-o yaml cannot be watched")
	}
	return p, nil
}

// runList prints the list, and with --watch what changes in it from then on.
func runList[T any](ctx context.Context, a *app, o listOptions, l lister[T]) error {
	return runItems(ctx, a, o, l, printList[T])
}

// runItem prints the one item that load finds, and with --watch its changes.
func runItem[T any](ctx context.Context, a *app, o listOptions, l lister[T]) error {
	return runItems(ctx, a, o, l, func(p printer, v view[T], items []T) error { return printItem(p, v, items[0]) })
}

func runItems[T any](ctx context.Context, a *app, o listOptions, l lister[T], print func(printer, view[T], []T) error) error {
	p, err := a.printer(o)
	if o.watch {
		p, err = a.watchPrinter(o)
	}
	if err != nil {
		return err
	}
	if _, err := l.view.pick(p); err != nil {
		return err
	}
	return a.withEtcd(ctx, func(c *connection) error {
		if o.watch {
			return watchItems(ctx, a, c, p, l)
		}
		items, err := l.load(ctx, c)
		if err != nil {
			return err
		}
		return print(p, l.view, items)
	})
}

// watchItems prints all items and then each one that is new or has changed. Changes are seen through a watch; bursts of
// them are looked at together.
func watchItems[T any](ctx context.Context, a *app, c *connection, p printer, l lister[T]) error {
	store, err := etcdkv.NewStore(c.Client, c.root, nil)
	if err != nil {
		return err
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := a.watchPrefixes(ctx, store, l.prefixes(store.Keys()))
	defer watchOver(ctx, c, a.notef)()
	shown := map[string]string{}
	for begun := false; ; begun = true {
		items, err := l.load(ctx, c)
		if err != nil {
			if err := outlast(ctx, begun, nil, err); err != nil {
				return err
			}
			continue
		}
		if err := printRows(p, l.view, news(l.view, items, shown)); err != nil {
			return err
		}
		p.noHeaders = true
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
func news[T any](v view[T], items []T, shown map[string]string) (fresh []T) {
	for _, item := range items {
		b, err := json.Marshal(item)
		if err != nil { // no item has what JSON cannot say
			panic(err)
		}
		if name := v.name(item); shown[name] != string(b) {
			shown[name] = string(b)
			fresh = append(fresh, item)
		}
	}
	return fresh
}

// watchEvery is the shortest time between two looks.
const watchEvery = 200 * time.Millisecond

// watchPrefixes sends nil when something under the prefixes may have changed since the last receive, and an error when
// it cannot go on. When etcd's history went back it tells so. It ends with ctx.
func (a *app) watchPrefixes(ctx context.Context, store *etcdkv.Store, prefixes []string) <-chan error {
	changed := make(chan error, 1)
	tell := func(err error) {
		select {
		case changed <- err:
		default: // a look is due anyway
		}
	}
	go tellRewinds(ctx, store, a.notef)
	for _, prefix := range prefixes {
		go watchPrefix(ctx, store, prefix, tell)
	}
	return changed
}

func watchPrefix(ctx context.Context, store *etcdkv.Store, prefix string, tell func(error)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for begun := false; ctx.Err() == nil; begun = true {
		resp, err := store.Get(ctx, prefix, clientv3.WithCountOnly())
		if err != nil {
			if err := outlast(ctx, begun, nil, err); err != nil {
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
