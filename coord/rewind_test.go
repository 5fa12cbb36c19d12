package coord_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/mirror"
)

// copyTree copies a stopped member's data.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// restorable is one member whose data can be put back to what it was.
type restorable struct {
	t            *testing.T
	endpoints    []string
	member       *embedetcd.Member
	data, backup string
}

func startRestorable(t *testing.T) *restorable {
	t.Helper()
	server, err := embedetcd.Start(within(t), embedetcd.Config{Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	member := server.Members()[0]
	return &restorable{
		t: t, endpoints: server.Endpoints(), member: member,
		data: filepath.Join(server.Dir(), member.Name()), backup: filepath.Join(t.TempDir(), "backup"),
	}
}

// keep makes the backup, restore goes back to it. Both restart the member.
func (r *restorable) keep()    { r.copied(r.data, r.backup) }
func (r *restorable) restore() { r.copied(r.backup, r.data) }

func (r *restorable) copied(from, to string) {
	r.t.Helper()
	r.member.Stop()
	copyTree(r.t, from, to)
	if err := r.member.Restart(within(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

// A restore from a backup takes the cluster back to a state in which session and
// keys exist as before. Those who lived through it must notice.
func TestHistoryRewound(t *testing.T) {
	t.Parallel()
	etcd := startRestorable(t)
	client := etcdtest.NewClient(t, etcd.endpoints)
	direct := etcdtest.NewClient(t, etcd.endpoints)

	root := etcdtest.Root(t)
	s := open(t, client, coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	store := newStore(t, client, root)
	m, mem := mirror.New(store, 200*time.Millisecond, 0), newMemory(t)
	m.Add(root+"a/", mem)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	key := root + "a/k"
	put(t, direct, key, "backed up")
	mem.waitFor(key, "backed up")

	etcd.keep()
	if _, err := s.Commit(within(t), nil, clientv3.OpPut(root+"c", "")); err == nil {
		t.Error("a commit under the root was accepted")
	}
	for range 20 {
		if _, err := s.Commit(within(t), nil, clientv3.OpPut(etcdtest.Root(t)+"c", "")); err != nil {
			t.Fatal(err)
		}
	}
	put(t, direct, key, "lost by the restore")
	mem.waitFor(key, "lost by the restore")
	rewound := store.Rewound()
	waited := make(chan error, 1)
	seen, err := store.Get(within(t), root+"never")
	must(t, err)
	go func() {
		_, err := store.FirstChange(ctx, root+"never", seen.Header.Revision+1)
		waited <- err
	}()

	etcd.restore()
	wantErr(t, "wait for a change", <-waited, coord.ErrHistoryRewound)
	// Nobody asks: session and mirror find out by themselves.
	mem.waitFor(key, "backed up")
	done(t, "the mirror's store sees it", rewound)
	done(t, "the end of the session", s.Done())
	wantErr(t, "session", s.Err(), coord.ErrHistoryRewound)
	wantErr(t, "session", s.Err(), coord.ErrSessionLost)
	put(t, direct, key, "new history")
	mem.waitFor(key, "new history")
	cancel()
	wantErr(t, "run", <-ran, nil)
}

// A mirror that was cut off until the new history had passed all that it saw shows what
// came before, and not only at its next full scan.
func TestMirrorCutOffWhileHistoryWentBackAndOn(t *testing.T) {
	t.Parallel()
	etcd := startRestorable(t)
	proxy, err := faultproxy.New(etcd.endpoints[0])
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	direct, cut := etcdtest.NewClient(t, etcd.endpoints), etcdtest.NewClient(t, []string{proxy.Endpoint()})
	root := etcdtest.Root(t)
	store := newStore(t, cut, root)
	m, mem := mirror.New(store, time.Minute, 0), newMemory(t)
	m.Add(root+"a/", mem)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	put(t, direct, root+"a/k", "backed up")
	mem.waitFor(root+"a/k", "backed up")
	etcd.keep()
	for range 20 {
		put(t, direct, root+"a/k", "lost by the restore")
	}
	mem.waitFor(root+"a/k", "lost by the restore")
	watch := store.Watch(ctx, root+"b", 1) // and so does a plain watch

	proxy.Refuse()
	etcd.restore()
	put(t, direct, root+"a/waits", "put below what the mirror saw")
	for range 40 {
		put(t, direct, root+"elsewhere", "")
	}
	proxy.Heal()
	mem.waitFor(root+"a/waits", "put below what the mirror saw")
	mem.waitFor(root+"a/k", "backed up")
	for range watch { // it ends
	}
	cancel()
	wantErr(t, "run", <-ran, nil)
}

// A user who may read one prefix and nothing beside it, not even meta, notices too:
// its mirror shows what the cluster holds now, and its store says so.
func TestHistoryRewoundUnderANarrowRole(t *testing.T) {
	t.Parallel()
	etcd := startRestorable(t)
	root := etcdtest.Root(t)
	key := root + "a/k"
	admin := etcdtest.NewClient(t, etcd.endpoints)
	grant := func(user string) {
		t.Helper()
		_, err := admin.RoleAdd(within(t), user)
		must(t, err)
		_, err = admin.UserAdd(within(t), user, "pw")
		must(t, err)
		_, err = admin.UserGrantRole(within(t), user, user)
		must(t, err)
	}
	grant("root")
	grant("narrow")
	_, err := admin.RoleGrantPermission(within(t), "narrow", root+"a/", clientv3.GetPrefixRangeEnd(root+"a/"), clientv3.PermissionType(clientv3.PermReadWrite))
	must(t, err)
	_, err = admin.AuthEnable(within(t))
	must(t, err)
	login := func(user string) *clientv3.Client {
		t.Helper()
		client, err := clientv3.New(clientv3.Config{Endpoints: etcd.endpoints, Username: user, Password: "pw", Logger: zap.NewNop()})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	narrow := login("narrow")
	store := newStore(t, narrow, root)
	if _, err := store.Get(within(t), store.Keys().Meta()); err == nil {
		t.Fatal("the role may read meta")
	}
	m, mem := mirror.New(store, 200*time.Millisecond, 0), newMemory(t)
	m.Add(root+"a/", mem)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	put(t, narrow, key, "backed up")
	mem.waitFor(key, "backed up")
	etcd.keep()
	for range 20 {
		put(t, narrow, key, "lost by the restore")
	}
	mem.waitFor(key, "lost by the restore")
	rewound := store.Rewound()
	etcd.restore()
	mem.waitFor(key, "backed up")
	done(t, "the store sees it", rewound)
	cancel()
	wantErr(t, "run", <-ran, nil)
}
