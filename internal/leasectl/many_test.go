package leasectl

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// many is an etcd with a queue of n jobs, and how to look at it as a person does.
type many struct {
	tb  testing.TB
	env map[string]string
}

func newMany(tb testing.TB, n, payload int) *many {
	tb.Helper()
	etcd, err := embedetcd.Start(tb.Context(), embedetcd.Config{Fast: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = etcd.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	q, err := workqueue.Open(tb.Context(), client, workqueue.Config{Queue: "mail"})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	body := []byte(`{"to":"` + strings.Repeat("x", payload) + `"}`)
	const batch = 5000
	for i := 0; i < n; i += batch {
		var items []workqueue.Params
		for k := i; k < min(i+batch, n); k++ {
			items = append(items, workqueue.Params{ID: fmt.Sprintf("job-%06d", k), Kind: "send", Payload: body, Priority: k % 1000 / 999})
		}
		results, err := q.EnqueueBatch(tb.Context(), items)
		for _, r := range results {
			if err == nil {
				err = r.Err
			}
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return &many{tb, map[string]string{"LEASECTL_ENDPOINTS": etcd.Endpoints()[0], "LEASECTL_CONTEXT": "none", "LEASECTL_DIAL_TIMEOUT": "1m"}}
}

// look runs a command and returns what it printed.
func (m *many) look(args ...string) string {
	m.tb.Helper()
	var out, errOut bytes.Buffer
	ctx, cancel := context.WithTimeout(m.tb.Context(), clitest.Patience)
	defer cancel()
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errOut, Getenv: func(name string) string { return m.env[name] }}
	if code := run(ctx, a, newRoot(a, verbs(a)), args); code != 0 {
		m.tb.Fatalf("%v: exit code %d: %s", args, code, errOut.String())
	}
	return out.String()
}

// looks are the commands that must stay quick.
var looks = [][]string{
	{"status"},
	{"queues", "ls"},
	{"workers", "ls"},
	{"jobs", "ls", "--limit", "50"},
	{"jobs", "ls", "mail", "--filter", "state:ready kind:send", "--limit", "50"},
	{"jobs", "ls", "mail", "--filter", "label.tenant:42", "--limit", "50"},
	{"jobs", "get", "mail/job-000500"},
	{"jobs", "describe", "mail/job-000500"},
}

// The commands that one begins with answer soon, however much is in a queue, and right. The bound is for a busy machine:
// BenchmarkLooks measures.
func TestLooksAtManyJobs(t *testing.T) {
	const n, soon = 20_000 / slower, 20 * time.Second
	const urgent = n / 1000 // the last one of each thousand
	m := newMany(t, n, 60)
	for _, args := range looks {
		start := time.Now()
		m.look(args...)
		if took := time.Since(start); took > soon {
			t.Errorf("%v took %v", args, took)
		}
	}
	lines := strings.Split(strings.TrimSpace(m.look("jobs", "ls", "--limit", "50", "-o", "name")), "\n")
	if len(lines) != 50 {
		t.Fatalf("the first 50 are %q", lines)
	}
	for i, k := range map[int]int{0: 999, urgent - 1: n - 1, urgent: 0, 49: 49 - urgent} {
		if want := fmt.Sprintf("job/mail/job-%06d", k); lines[i] != want {
			t.Errorf("line %d of the first 50 is %s, want %s", i, lines[i], want)
		}
	}
	if out := m.look("queues", "ls", "--no-headers", "--columns", "READY"); strings.TrimSpace(out) != fmt.Sprint(n) {
		t.Errorf("counted %q", out)
	}
}

func BenchmarkLooks(b *testing.B) {
	for _, payload := range []int{60, 900} {
		m := newMany(b, 100_000, payload)
		for _, args := range looks {
			b.Run(fmt.Sprintf("payload=%d/%s", payload, strings.Join(args, "_")), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.look(args...)
				}
			})
		}
	}
}
