package election_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// candidateEnv tells this binary to be a candidate: "<endpoints> <root>".
const candidateEnv = "LEASEKIT_TEST_CANDIDATE"

const (
	processTTL = 2 * time.Second
	busyAfter  = 20 // accepted writes
)

// candidate stands for election until its stdin ends. While it leads it appends
// intervals of work, each under its term's fence, and says on stdout how it goes.
func candidate() int {
	endpoints, root, _ := strings.Cut(os.Getenv(candidateEnv), " ")
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ","), Logger: zap.NewNop()})
	if err != nil {
		return 1
	}
	e, err := election.New(client, election.Config{Name: "e", Root: root, Identity: "candidate", TTL: processTTL})
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if e.Run(ctx, func(ctx context.Context, t *election.Term) error { return appendWork(ctx, t, root) }) != nil {
		return 1
	}
	return 0
}

// appendWork works until its ctx ends, and a little longer: what it wants to write
// then is somebody else's to accept or to refuse.
func appendWork(ctx context.Context, t *election.Term, root string) error {
	fmt.Println("leads", t.Token())
	for n := 0; ; n++ {
		start := time.Now()
		key := fmt.Sprintf("/work%s%020d-%06d", root, t.Token(), n)
		late := ctx.Err() != nil
		_, err := t.Commit(context.WithoutCancel(ctx), clientv3.OpPut(key, fmt.Sprint(start.UnixNano(), " ", time.Now().UnixNano())))
		switch {
		case errors.Is(err, coord.ErrFenced):
			fmt.Println("refused", t.Token())
			return ctx.Err()
		case err == nil && n == 0:
			fmt.Println("works", t.Token())
		case err == nil && n == busyAfter:
			fmt.Println("busy", t.Token())
		case late:
			return ctx.Err()
		}
	}
}

// process is a candidate in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	gone  chan struct{}
}

// event is a line of a candidate's.
type event struct {
	from  *process
	what  string
	token coord.Token
	at    time.Time
}

// troupe is some candidates and what they say.
type troupe struct {
	t      *testing.T
	env    string
	events chan event
	wg     sync.WaitGroup
	all    []*process
}

func (tr *troupe) start() *process {
	tr.t.Helper()
	self, err := os.Executable()
	must(tr.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), candidateEnv+"="+tr.env)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(tr.t, err)
	stdout, err := cmd.StdoutPipe()
	must(tr.t, err)
	must(tr.t, cmd.Start())
	p := &process{cmd: cmd, stdin: stdin, gone: make(chan struct{})}
	tr.all = append(tr.all, p)
	tr.wg.Go(func() {
		defer close(p.gone)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			what, number, _ := strings.Cut(scan.Text(), " ")
			token, err := coord.ParseToken(number)
			if err != nil {
				tr.t.Errorf("a candidate said %q", scan.Text())
				continue
			}
			tr.events <- event{p, what, token, time.Now()}
		}
		_ = cmd.Wait() // killed ones do not end well
	})
	return p
}

func (tr *troupe) stop() {
	for _, p := range tr.all {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.stdin.Close()
	}
	go func() {
		for range tr.events {
		}
	}()
	tr.wg.Wait()
	close(tr.events)
}

// working blocks until somebody other than old leads and has written, a lot; it
// returns the first write.
func (tr *troupe) working(old *process, after coord.Token) (first event) {
	tr.t.Helper()
	for {
		e := receive(tr.t, "the next leader", tr.events)
		switch {
		case e.from == old || e.token <= after:
		case e.what == "works":
			first = e
		case e.what == "busy" && first.token == e.token:
			return first
		}
	}
}

// The leader's process is killed 20 times in a row, and frozen once: there is always
// a leader again, tokens rise, what was accepted never overlaps, and a frozen
// leader's late write is refused.
func TestKilledLeadersFollowEachOther(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 3
	}
	cluster := etcdtest.New(t, etcdtest.Config{Members: 3})
	client := cluster.Client(t)
	root := etcdtest.Root(t)
	tr := &troupe{t: t, env: strings.Join(cluster.Endpoints(), ",") + " " + root, events: make(chan event, 1024)}
	defer tr.stop()
	for range 3 {
		tr.start()
	}
	last := tr.working(nil, 0)
	frozen := last.from
	must(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
	last = tr.working(frozen, last.token)
	must(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
	tr.refused(frozen)
	var took []time.Duration
	for range kills {
		start := time.Now()
		must(t, last.from.cmd.Process.Kill())
		tr.start()
		next := tr.working(last.from, last.token)
		took = append(took, next.at.Sub(start))
		last = next
	}
	slices.Sort(took)
	t.Logf("from the kill to the next leader's first accepted write, TTL %v: shortest %v, median %v, longest %v of %d",
		processTTL, took[0], took[len(took)/2], took[len(took)-1], len(took))
	if got := took[len(took)/2]; got > processTTL+10*time.Second { // promised: TTL + 1.5 s
		t.Errorf("takeovers took %v", took)
	}
	checkWork(t, client, root)
}

// refused blocks until a process was told that its write was refused.
func (tr *troupe) refused(p *process) {
	tr.t.Helper()
	for {
		if e := receive(tr.t, "the refusal", tr.events); e.from == p && e.what == "refused" {
			return
		}
	}
}

// checkWork reads all accepted intervals: in the order of their revisions tokens
// never fall, and no interval begins before those of an earlier token have ended.
func checkWork(t *testing.T, client *clientv3.Client, root string) {
	t.Helper()
	resp, err := client.Get(within(t), "/work"+root, clientv3.WithPrefix())
	must(t, err)
	slices.SortFunc(resp.Kvs, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	terms := map[string]bool{}
	lastToken, lastEnd := "", int64(0)
	for _, kv := range resp.Kvs {
		token, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), "/work"+root), "-")
		var start, end int64
		if _, err := fmt.Sscan(string(kv.Value), &start, &end); err != nil || kv.Version != 1 {
			t.Fatalf("%s: %s, version %d", kv.Key, kv.Value, kv.Version)
		}
		if token < lastToken {
			t.Errorf("work under token %s was accepted after %s", token, lastToken)
		}
		if token != lastToken && start < lastEnd {
			t.Errorf("work under token %s began %v before work under %s ended", token, time.Duration(lastEnd-start), lastToken)
		}
		terms[token] = true
		lastToken, lastEnd = token, max(lastEnd, end)
	}
	t.Logf("%d intervals of %d terms were accepted", len(resp.Kvs), len(terms))
}
