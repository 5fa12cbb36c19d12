package leasectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// invoked is what one invocation of leasectl said.
type invoked struct {
	code     int
	out, err string
}

// invoke runs leasectl in this process, bounded.
func invoke(t *testing.T, args ...string) invoked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	var out, errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(name string) string { return map[string]string{"LEASECTL_DIAL_TIMEOUT": "1m"}[name] }, Aborted: make(chan struct{})}
	code := run(ctx, a, newRoot(a, verbs(a)), args)
	if ctx.Err() != nil {
		t.Errorf("leasectl %s does not end", strings.Join(args, " "))
	}
	return invoked{code, out.String(), errs.String()}
}

// answered invokes until etcd has answered in time, which a busy machine may prevent.
func answered(t *testing.T, args ...string) invoked {
	t.Helper()
	for end := time.Now().Add(clitest.Patience); ; {
		got := invoke(t, args...)
		if !strings.Contains(got.err, "no answer in time") || time.Now().After(end) {
			return got
		}
	}
}

// A member without its peers answers some things still. The screen says that nothing of
// it is confirmed, and so does the exit code.
func TestSurvives_50_StatusIsUnverifiedWithoutAMajority(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Members: 3, Fast: true})
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	leader, err := etcd.WaitLeader(ctx) // a leader believes in itself the longest
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--endpoints", leader.Endpoint(), "--root", "/survives/"}
	if got := invoke(t, append(at, "status")...); got.code != exit.OK || strings.Contains(got.out, "unverified") {
		t.Errorf("with a majority: %+v", got)
	}
	leader.Cut()
	defer leader.Mend()
	at = append(at, "--dial-timeout", "3s") // each of them waits for that long
	if got := invoke(t, append(at, "status")...); got.code != exit.Unreachable || !strings.Contains(got.out, "unverified (no quorum)") {
		t.Errorf("without a majority: %+v", got)
	}
	got := invoke(t, append(at, "status", "-o", "json")...)
	var st struct{ Verified bool }
	if err := json.Unmarshal([]byte(got.out), &st); err != nil || st.Verified || !strings.Contains(got.out, `"verified": false`) || got.code != exit.Unreachable {
		t.Errorf("without a majority, as JSON: %+v, %v", got, err)
	}
	for _, args := range [][]string{{"locks", "ls"}, {"elections", "ls"}, {"queues", "ls"}, {"jobs", "ls", "q"}} {
		if got := invoke(t, append(at, args...)...); got.code != exit.Unreachable || got.out != "" {
			t.Errorf("%s without a majority: %+v", strings.Join(args, " "), got)
		}
	}
}

// What a hostile or broken neighbour put under the root is listed or reported, and
// nothing of it reaches a terminal as anything but text.
func TestSecurityListingsOfJunk(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	const root, escape = "/hostile/", "\x1b]0;owned\x07\x1b[2J"
	cl, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	q, err := workqueue.Open(ctx, cl, workqueue.Config{Queue: "q", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "good", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	escaped, _ := json.Marshal(escape)
	record := func(id, rest string) string {
		return fmt.Sprintf(`{"w":"00000000000000aa","v":1,"id":%q,"born":"00000000000000aa"%s}`, id, rest)
	}
	values := map[string]string{
		"empty": "", "text": "hello", "escape": escape, "binary": "\x00\xff", "null": "null", "list": "[]", "huge": strings.Repeat("x", 1_000_000),
		"deep": strings.Repeat("[", 50_000), "types": `{"w":"00000000000000aa","v":"1","id":7,"owner":[]}`, "newer": `{"w":"00000000000000aa","v":99,"id":"newer","schema":99}`,
	}
	put := func(key, value string) {
		if _, err := cl.Put(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{
		"", "sessions/", "lanes/", "queues/", "schedules/", "locks/", "locks/l/", "locks/l/waiters/", "elections/e/candidates/", "semaphores/s/slots/", "semaphores/s/waiters/",
		"queues/q/", "queues/q/workers/", "queues/q/jobs/", "queues/q/jobs/00/", "queues/q/payloads/", "queues/q/progress/", "queues/q/assigned/x/", "queues/q/done/", "queues/q/dead/", "queues/q/refused/",
		"sessions/a.0123456789abcdef/", "queues/q/workers/a.0123456789abcdef/", "queues/junk/jobs/",
	} {
		for name, value := range values {
			put(root+dir+name, value)
			put(root+dir+"\xff"+escape+name, value[:min(len(value), 1000)])
		}
	}
	keys, state := root+"queues/q/", `,"kind":`+string(escaped)+`,"error":`+string(escaped)+`,"labels":{"a":`+string(escaped)+`},"attempts":[{"attempt":1,"outcome":`+string(escaped)+`,"error":`+string(escaped)+`,"owner":`+string(escaped)+`}]`
	put(keys+"dead/evil", record("evil", state+`,"outcome":"failed","finished_at":"2026-01-01T00:00:00Z"`))
	put(keys+"done/evil", record("evil", state+`,"outcome":"completed","finished_at":"9999-12-31T23:59:59.9-23:59"`))
	put(root+"sessions/a.0123456789abcdef", `{"w":"00000000000000aa","identity":`+string(escaped)+`,"host":`+string(escaped)+`}`)
	put(keys+"workers/a.0123456789abcdef", `{"w":"00000000000000aa","kinds":[`+string(escaped)+`],"concurrency":9223372036854775807}`)
	put(root+"locks/evil/holder", `{"w":"00000000000000aa","owner":`+string(escaped)+`,"owner_rev":"1","by":`+string(escaped)+`,"reason":`+string(escaped)+`}`)
	put(root+"elections/evil/leader", `{"w":"00000000000000aa","owner":`+string(escaped)+`,"owner_rev":"1"}`)

	for _, verb := range [][]string{
		{"jobs", "ls", "q"}, {"jobs", "ls"}, {"jobs", "get", "q/evil"}, {"jobs", "get", "q/good"}, {"jobs", "describe", "q/evil"},
		{"queues", "ls"}, {"queues", "get", "q"}, {"queues", "describe", "q"}, {"workers", "ls"},
		{"workers", "describe", "a.0123456789abcdef"}, {"locks", "ls"}, {"locks", "get", "evil"}, {"elections", "ls"}, {"elections", "get", "evil"}, {"status"}, {"doctor"},
	} {
		for _, format := range []string{"", "json", "wide"} {
			args := append([]string{"--endpoints", etcd.Endpoints()[0], "--root", root}, verb...)
			if format != "" {
				args = append(args, "-o", format)
			}
			got := answered(t, args...)
			name := strings.Join(args[4:], " ")
			if got.code == exit.Usage && format == "wide" {
				continue // not every verb has it
			}
			if got.code != exit.OK && got.code != exit.Partly && got.code != exit.Doctor && got.code != exit.Failed && got.code != exit.NotFound {
				t.Errorf("%s: code %d, %.300q", name, got.code, got.err)
			}
			for _, text := range []string{got.out, got.err} {
				if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 || !utf8.ValidString(text) {
					t.Errorf("%s prints what a terminal obeys: %.200q", name, text[max(0, i-60):])
				}
			}
			if format == "json" && got.code == exit.OK && !json.Valid([]byte(got.out)) {
				t.Errorf("%s prints no JSON: %.300q", name, got.out)
			}
		}
	}
}
