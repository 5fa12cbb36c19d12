package coord_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/embedetcd"
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

// A restore from a backup takes the cluster back to a state in which session and
// keys exist as before. Those who lived through it must notice.
func TestHistoryRewound(t *testing.T) {
	t.Parallel()
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
	restart := func() {
		t.Helper()
		if err := member.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	data, backup := filepath.Join(server.Dir(), member.Name()), filepath.Join(t.TempDir(), "backup")
	client := etcdtest.NewClient(t, server.Endpoints())
	direct := etcdtest.NewClient(t, server.Endpoints())

	root := etcdtest.Root(t)
	s := open(t, client, coord.SessionConfig{Root: root, TTL: 20 * time.Second})
	store := newStore(t, client, root)
	m, mem := store.Mirror(200*time.Millisecond, 0), newMemory(t)
	m.Add(root+"a/", mem)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	key := root + "a/k"
	put(t, direct, key, "backed up")
	mem.waitFor(key, "backed up")

	member.Stop()
	copyTree(t, data, backup)
	restart()
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

	member.Stop()
	copyTree(t, backup, data)
	restart()
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
