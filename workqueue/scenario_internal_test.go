package workqueue

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Each file under testdata/scenarios is a play in text, with what each of its lines
// leads to: on etcd in memory, where what must be so is checked behind every line,
// and on a real server, which must say the same. Only a real server is not taken back
// to a backup. Run with -rewrite to write down what happens, and read it well.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("found %d scenarios: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Run("memory", func(t *testing.T) { runScenario(t, file, nil) })
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "\nrestore") && !rewriting() {
				t.Run("etcd", func(t *testing.T) {
					server := &liveServer{ctx: t.Context(), client: etcdtest.Shared(t).Client(t)}
					runScenario(t, file, server)
					if server.err != nil {
						t.Error(server.err)
					}
				})
			}
		})
	}
}

func rewriting() bool {
	for _, arg := range os.Args {
		if strings.TrimLeft(arg, "-") == "rewrite" {
			return true
		}
	}
	return false
}

func runScenario(t *testing.T, file string, server *liveServer) {
	var p *play
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "play":
			p = playFor(t, d, server)
			p.open()
			return ""
		case "run":
			return p.runAll(t, d)
		}
		d.Fatalf(t, "%s is neither play nor run", d.Cmd)
		return ""
	})
}

// playFor makes the play that a scenario names the actors and the jobs' limits of.
func playFor(t *testing.T, d *datadriven.TestData, server *liveServer) *play {
	root := "/play/"
	if server != nil {
		root = etcdtest.Root(t)
	}
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 && arg.Key != "at-most-once" {
			names = append(names, arg.Key)
		}
	}
	p := newPlay(space, names...)
	d.MaybeScanArgs(t, "max-losses", &p.perJob.MaxLosses)
	d.MaybeScanArgs(t, "max-attempts", &p.perJob.MaxAttempts)
	p.perJob.AtMostOnce = d.HasArg("at-most-once")
	p.real, p.nonce = server, growingNonces
	if server != nil {
		p.leases = rand.Int64N(1 << 60)
	}
	return p
}

func (p *play) runAll(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		what, err := p.run(line)
		switch {
		case errors.Is(err, errCannot):
			what = err.Error()
		case err != nil:
			d.Fatalf(t, "%s: %v", line, err)
		}
		out.WriteString(line)
		if what != "" {
			out.WriteString(" -> " + what)
		}
		out.WriteString("\n")
	}
	return out.String()
}
