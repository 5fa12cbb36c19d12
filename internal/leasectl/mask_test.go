package leasectl

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// masks are what no two runs print alike.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`https?://127\.0\.0\.1:[0-9]+`), "ENDPOINT"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "HEX"},
	{regexp.MustCompile(`\b(rev|revision|token|current|pid) [0-9]+`), "$1 N"},
	{regexp.MustCompile(`\b[0-9.]+(KiB|MiB|GiB)\b`), "SIZE"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?(ms|s|m|h|d)([0-9]+s)?\b`), "AGE"},
	{regexp.MustCompile(`\b[a-z0-9_-]+@HOST\b`), "USER@HOST"},
	{regexp.MustCompile(` \(older revisions compacted\)`), ""}, // as the clock wants it
	{regexp.MustCompile(`(?m) +$`), ""},
	{regexp.MustCompile(`   +`), "  "},
}

// cmdMask is "mask [-sorted] FILE [COLUMN...]": it writes what the last command printed to FILE, without what differs from run to
// run. Cells of the columns become <COLUMN>, unless there is nothing in them. Rows can be sorted as they are then, since
// the name of this host comes in another place elsewhere.
func cmdMask(ts *testscript.TestScript, neg bool, args []string) {
	sorted := len(args) > 0 && args[0] == "-sorted"
	if sorted {
		args = args[1:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: mask [-sorted] FILE [COLUMN...]")
	}
	text := ts.ReadFile("stdout")
	if host, err := os.Hostname(); err == nil {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "HOST")
	}
	if len(args) > 1 {
		text = maskColumns(text, args[1:])
	}
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	if sorted {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		slices.Sort(lines[1:])
		text = strings.Join(lines, "\n") + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// cmdPausedFor is "pausedfor QUEUE DURATION": it puts the pause of a queue back in time.
func cmdPausedFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pausedfor QUEUE DURATION")
	}
	long, err := time.ParseDuration(args[1])
	ts.Check(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{ts.Getenv("LEASECTL_ENDPOINTS")}, Logger: zap.NewNop()})
	ts.Check(err)
	defer func() { _ = client.Close() }()
	space, err := keyspace.New(ts.Getenv("LEASECTL_ROOT"))
	ts.Check(err)
	key := space.Queue(args[0]).Config()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := client.Get(ctx, key)
	ts.Check(err)
	at := time.Now().Add(-long).UTC().Format(time.RFC3339)
	value := regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(string(resp.Kvs[0].Value), `"at":"`+at+`"`)
	_, err = client.Put(ctx, key, value)
	ts.Check(err)
}

// maskColumns masks columns of a table, and separates cells by two spaces, however wide they were.
func maskColumns(text string, columns []string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	gap := regexp.MustCompile(`  +`)
	heads := gap.Split(lines[0], -1)
	for i, line := range lines {
		cells := gap.Split(line, -1)
		if len(cells) != len(heads) { // no row of the table
			continue
		}
		for k := range cells {
			for _, c := range columns {
				if i > 0 && heads[k] == c && cells[k] != "-" {
					cells[k] = "<" + c + ">"
				}
			}
		}
		lines[i] = strings.Join(cells, "  ")
	}
	return strings.Join(lines, "\n") + "\n"
}
