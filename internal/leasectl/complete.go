package leasectl

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

// completeWithin is how long a press of the tab key may take: what etcd has not told by then is not offered.
const completeWithin = 200 * time.Millisecond

// completeAtMost bounds how many names are read for one press.
const completeAtMost = 1000

// lookup finds names in etcd that begin with a prefix.
type lookup func(ctx context.Context, client *clientv3.Client, store *etcdkv.Store, prefix string) ([]string, error)

// lookups say what can stand for a placeholder of a command's usage line, by the placeholder and by the noun above.
var lookups = map[string]lookup{
	"QUEUE":     completeQueues,
	"QUEUE/ID":  completeJobs,
	"locks":     completeNames(line.LockNames),
	"lock":      completeNames(line.LockNames),
	"elections": completeNames(line.ElectionNames),
	"SEMAPHORE": completeNames(line.SemaphoreNames),
	"SESSION":   completeSessions,
	"WORKER":    completeSessions,
}

// addCompletions gives every command that takes a name from etcd or from the contexts its live completion.
func addCompletions(a *cli.App, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		addCompletions(a, sub)
	}
	if cmd.ValidArgs != nil || cmd.ValidArgsFunction != nil {
		return
	}
	placeholder := cli.FirstPlaceholder(cmd.Use)
	look := lookups[placeholder]
	if placeholder == "NAME" && cmd.HasParent() {
		look = lookups[cmd.Name()]
		if look == nil {
			look = lookups[cmd.Parent().Name()]
		}
	}
	switch {
	case look != nil:
		cmd.ValidArgsFunction = completing(a, look)
	case cmd.HasParent() && cmd.Parent().Name() == "config" && slices.Contains([]string{"NAME", "OLD", "CONTEXT"}, placeholder):
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completeContexts(a, cmd, args, toComplete)
		}
	case placeholder == "":
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// completing turns a lookup into what cobra calls. Every trouble ends in no offer: a completion has no place for errors.
func completing(a *cli.App, look lookup) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offers(a, cmd, look, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// offers looks up what etcd has, wherever it stands in the command line.
func offers(a *cli.App, cmd *cobra.Command, look lookup, toComplete string) []string {
	if a.Settings.Load(cmd.Flags(), a.Getenv) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	return lookUp(ctx, a, look, toComplete)
}

func lookUp(ctx context.Context, a *cli.App, look lookup, prefix string) []string {
	a.Settings.Ask = nil // nobody can be asked in the middle of a command line
	t, err := a.Settings.Target(ctx, a.Getenv)
	if err != nil {
		return nil
	}
	client, err := connect.NewClient(ctx, ctx, t)
	if err != nil {
		return nil
	}
	defer func() { _ = client.Close() }()
	store, err := etcdkv.NewStore(client, t.Root, nil)
	if err != nil {
		return nil
	}
	names, err := look(ctx, client, store, prefix)
	if err != nil {
		return nil
	}
	// The shell takes line by line, and what it completes is typed.
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) || escape.Text(n) != n })
}

func completeQueues(ctx context.Context, client *clientv3.Client, store *etcdkv.Store, _ string) ([]string, error) {
	return workqueue.Queues{Client: client, Root: store.Keys().Root()}.Names(ctx)
}

// completeJobs offers the queues first, and once the queue is there, the IDs of its jobs, dead ones first: those are
// what people act on.
func completeJobs(ctx context.Context, client *clientv3.Client, store *etcdkv.Store, prefix string) ([]string, error) {
	queue, id, ok := strings.Cut(prefix, "/")
	if !ok {
		names, err := completeQueues(ctx, client, store, prefix)
		for i, n := range names {
			names[i] = escape.Name(n, "/") + "/"
		}
		return names, err
	}
	keys := store.Keys().Queue(escape.Unname(queue))
	id = escape.Unname(id)
	var found []string
	for _, dir := range []string{keys.Dead(id), keys.Jobs(), keys.Done(id)} {
		resp, err := store.Get(ctx, dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(completeAtMost))
		if err != nil {
			return found, err
		}
		for _, kv := range resp.Kvs {
			if p, ok := store.Keys().Parse(string(kv.Key)); ok && p.ID != "" {
				found = append(found, queue+"/"+escape.Name(p.ID, ""))
			}
		}
	}
	return found, nil
}

func completeNames(names func(context.Context, *etcdkv.Store) ([]string, error)) lookup {
	return func(ctx context.Context, _ *clientv3.Client, store *etcdkv.Store, _ string) ([]string, error) {
		return names(ctx, store)
	}
}

func completeSessions(ctx context.Context, _ *clientv3.Client, store *etcdkv.Store, _ string) ([]string, error) {
	prefix := store.Keys().Sessions()
	resp, err := store.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(completeAtMost))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, kv := range resp.Kvs {
		found = append(found, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return found, nil
}

// completeContexts offers the contexts of the file.
func completeContexts(a *cli.App, _ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	path, err := contexts.Path(a.Getenv)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := contexts.Load(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(f.Names(), func(n string) bool { return !strings.HasPrefix(n, toComplete) }), cobra.ShellCompDirectiveNoFileComp
}
