package leasectl

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// authorised is an etcd with auth on, with one queue and a foreign lease in it, and users who may read it all, one queue
// of it, or nothing.
func authorised(t *testing.T) (endpoint string) {
	t.Helper()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	endpoint = etcd.Endpoints()[0]
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Enqueue(ctx, workqueue.Params{ID: "a", Payload: []byte("x")})
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nil, err)
	must(nil, q.Close())
	// One foreign lease is enough for etcd to deny its list of leases to everybody but root.
	lease, err := client.Grant(ctx, 600)
	must(nil, err)
	must(client.Put(ctx, "/foreign/key", "x", clientv3.WithLease(lease.ID)))
	keys, err := keyspace.New("")
	must(nil, err)
	must(client.RoleAdd(ctx, "root"))
	must(client.UserAdd(ctx, "root", "pw"))
	must(client.UserGrantRole(ctx, "root", "root"))
	for user, prefix := range map[string]string{"viewer": keys.Root(), "mailer": keys.Queue("mail").Prefix(), "nobody": "/elsewhere/"} {
		must(client.RoleAdd(ctx, user))
		must(client.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermRead)))
		must(client.UserAdd(ctx, user, "pw"))
		must(client.UserGrantRole(ctx, user, user))
	}
	must(client.AuthEnable(ctx))
	return endpoint
}

// Whoever may read the root can look at everything; whoever may read one queue can look at that; and whoever may not is
// told what is missing.
func TestLooksNeedNoMoreThanTheRightToRead(t *testing.T) {
	t.Parallel()
	endpoint := authorised(t)
	for _, tt := range []struct {
		user string
		args string
		code int
		says string // on stderr
	}{
		{"viewer", "status", 0, ""},
		{"viewer", "queues ls", 0, ""},
		{"viewer", "queues describe mail", 0, ""},
		{"viewer", "workers ls", 0, ""},
		{"viewer", "leases ls", 0, ""},
		{"viewer", "jobs ls -o wide", 0, ""},
		{"viewer", "jobs describe mail/a", 0, ""},
		{"viewer", "jobs history mail/a", 0, ""},
		{"viewer", "jobs wait mail/a --for ready", 0, ""},
		{"viewer", "events --since-rev 2 --limit 1", 0, ""},

		{"mailer", "jobs ls mail --state ready,dead", 0, ""},
		{"mailer", "jobs get mail/a", 0, ""},
		{"mailer", "jobs describe mail/a", 0, ""},
		{"mailer", "jobs history mail/a", 0, ""},
		{"mailer", "jobs wait mail/a --for ready", 0, ""},
		{"mailer", "events --queue mail --since-rev 2 --limit 1", 0, ""},
		{"mailer", "queues get mail", 0, "warning: you may not read who is alive"},
		{"mailer", "jobs ls mail", exit.Auth, "read /leasekit/sessions/: etcdserver: permission denied"},
		{"mailer", "workers ls", exit.Auth, "permission denied; try: name the QUEUE that you may read"},
		{"mailer", "queues ls", exit.Auth, "list queues: etcdserver: permission denied; try: name the QUEUE that you may read"},
		{"mailer", "events", exit.Auth, "read /leasekit/: etcdserver: permission denied"},
		{"mailer", "jobs ls post", exit.Auth, "queue post: "},

		{"nobody", "status", exit.Auth, "permission denied"},
		{"nobody", "leases ls", exit.Auth, "permission denied"},
		{"nobody", "jobs get mail/a", exit.Auth, "permission denied"},
		{"nobody", "jobs history mail/a", exit.Auth, "permission denied"},
		{"nobody", "jobs wait mail/a", exit.Auth, "permission denied"},
		{"nobody", "queues describe mail", exit.Auth, "permission denied"},
	} {
		env := map[string]string{"LEASECTL_USER": tt.user, "LEASECTL_PASSWORD": "pw"}
		out, errOut, code := lookAt(t, endpoint, env, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errOut, tt.says) || code != 0 && (out != "" || strings.Count(errOut, "\n") != 1) {
			t.Errorf("%s: %s: exit code %d, want %d\n%s%s", tt.user, tt.args, code, tt.code, out, errOut)
		}
	}
}
